// The search box. Enter plots what is chosen, Shift+Enter adds it to the current panel.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { get, Refusal, RETRY, type SearchAnswer } from "./api";
import { queryOfAddress } from "./link";
import { count, visible } from "./numbers";
import { openText, plot, spoken } from "./state";
import { targetOf } from "./targets";

const RESULTS = 60;

export function Search() {
  const text = useSignal("");
  const answer = useSignal<SearchAnswer | null>(null);
  const problem = useSignal("");
  const chosen = useSignal(0);
  const isOpen = useSignal(false);
  const input = useRef<HTMLInputElement>(null);
  const asked = useRef<AbortController | null>(null);
  /** The text that `answer` belongs to, and what to do once there is an answer to the newest text. */
  const answered = useRef("");
  const pending = useRef<{ adds: boolean } | null>(null);

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target;
      const types = target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.shadowRoot !== null);
      if (event.key === "/" && !types && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        input.current?.focus();
        input.current?.select();
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);

  const ask = async (words: string) => {
    asked.current?.abort();
    if (words.trim() === "" || queryOfAddress(words) !== null) {
      answer.value = null;
      answered.current = "";
      problem.value = "";
      return;
    }
    const controller = new AbortController();
    asked.current = controller;
    try {
      const found = await get<SearchAnswer>("plumbago/search", [["query", words], ["limit", String(RESULTS)]], controller.signal);
      answer.value = found;
      answered.current = words;
      chosen.value = 0;
      problem.value = "";
      spoken.value = `${found.total} found`;
      if (pending.current) accept(pending.current.adds);
    } catch (error) {
      if (controller.signal.aborted) return;
      problem.value = error instanceof Refusal ? error.message : String(error);
      if (error instanceof Refusal && error.passes) window.setTimeout(() => text.value === words && asked.current === controller && void ask(words), RETRY);
    }
  };

  const accept = (adds: boolean) => {
    const pasted = queryOfAddress(text.value);
    if (pasted !== null) {
      openText(pasted, adds);
      isOpen.value = false;
      return;
    }
    if (answered.current !== text.value) {
      pending.current = { adds };
      return;
    }
    pending.current = null;
    const result = answer.value?.results[chosen.value];
    if (!result) return;
    plot(targetOf(result.path, result.leaf), adds);
    if (!adds) {
      isOpen.value = false;
      input.current?.select();
    }
  };

  const onKey = (event: KeyboardEvent) => {
    const results = answer.value?.results.length ?? 0;
    if (event.key === "ArrowDown") chosen.value = Math.min(results - 1, chosen.value + 1);
    else if (event.key === "ArrowUp") chosen.value = Math.max(0, chosen.value - 1);
    else if (event.key === "Enter") accept(event.shiftKey);
    else if (event.key === "Escape") {
      if (isOpen.value) isOpen.value = false;
      else input.current?.blur();
    } else return;
    event.preventDefault();
    document.getElementById(`found-${chosen.value}`)?.scrollIntoView({ block: "nearest" });
  };

  const showsList = isOpen.value && (answer.value !== null || problem.value !== "");
  return (
    <div class="search" role="search">
      <input
        id="search"
        ref={input}
        type="text"
        role="combobox"
        aria-label="Search names"
        aria-expanded={showsList}
        aria-controls="found"
        aria-autocomplete="list"
        aria-activedescendant={showsList && answer.value?.results.length ? `found-${chosen.value}` : undefined}
        placeholder="Search names:  web cpu user,  serv*.load,  dc=eu"
        autocomplete="off"
        spellcheck={false}
        value={text.value}
        onInput={(event) => {
          text.value = event.currentTarget.value;
          isOpen.value = true;
          pending.current = null;
          void ask(text.value);
        }}
        onFocus={() => (isOpen.value = true)}
        onBlur={() => (isOpen.value = false)}
        onKeyDown={onKey}
      />
      <kbd class="slash" aria-hidden="true">/</kbd>
      {isOpen.value && queryOfAddress(text.value) !== null && (
        <div class="found">
          <p class="note">An address of a graph: <span class="keys"><kbd>Enter</kbd> shows it, <kbd>Shift+Enter</kbd> adds its panels</span></p>
        </div>
      )}
      {showsList && (
        <div class="found" onMouseDown={(event) => event.preventDefault()}>
          {problem.value !== "" ? (
            <p class="problem" role="alert">{visible(problem.value)}</p>
          ) : (
            <p class="note">
              {count(answer.value?.total ?? 0)} found{answer.value?.complete ? "" : " before the limit was reached"}
              <span class="keys"><kbd>Enter</kbd> plots, <kbd>Shift+Enter</kbd> adds</span>
            </p>
          )}
          <ul id="found" role="listbox" aria-label="Names found">
            {answer.value?.results.map((result, place) => (
              <li
                key={result.path}
                id={`found-${place}`}
                role="option"
                aria-selected={place === chosen.value}
                onMouseMove={() => (chosen.value = place)}
                onClick={(event) => {
                  chosen.value = place;
                  accept(event.shiftKey);
                }}
              >
                <Marked text={result.path} words={answered.current} />
                {!result.leaf && <span class="kind">.*</span>}
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}

/** A name with the words of the search marked. */
function Marked({ text, words }: { text: string; words: string }) {
  const lower = text.toLowerCase();
  const marked = new Array<boolean>(text.length).fill(false);
  for (const word of words.toLowerCase().split(/\s+/)) {
    if (word === "" || lower.length !== text.length) continue;
    for (let at = lower.indexOf(word); at >= 0; at = lower.indexOf(word, at + word.length)) marked.fill(true, at, at + word.length);
  }
  const parts = [];
  for (let at = 0; at < text.length; ) {
    let end = at + 1;
    while (end < text.length && marked[end] === marked[at]) end++;
    const part = visible(text.slice(at, end));
    parts.push(marked[at] ? <mark key={at}>{part}</mark> : part);
    at = end;
  }
  return <bdi class="path">{parts}</bdi>;
}
