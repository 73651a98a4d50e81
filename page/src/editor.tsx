// The targets of a panel as text. Ctrl+Enter runs them; nothing that was typed is rewritten, except on request.

import { signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { get, type BrowsePage, type Fault } from "./api";
import type { Handle } from "./codemirror";
import { focusSoon } from "./focus";
import { callAt, format, signature, type Described } from "./functions";
import { Keys } from "./keys";
import type { Panel } from "./link";
import { visible } from "./numbers";
import { setPanel } from "./state";
import { escaped, globOf, nameOfGlob } from "./targets";

type Mount = typeof import("./codemirror").mount;

/** The editor's code, once it is loaded. Until then a plain text field is used. */
const mount = signal<Mount | null>(null);
const known = signal<Map<string, Described> | null>(null);
let loading: Promise<Map<string, Described>> | null = null;

function functions(): Promise<Map<string, Described>> {
  loading ??= get<Record<string, Described>>("functions", []).then(
    (found) => (known.value = new Map(Object.entries(found))),
    () => {
      loading = null;
      return new Map<string, Described>();
    },
  );
  return loading;
}

/** Loads the editor after the first paint. */
export function loadEditor(): void {
  const load = () => {
    const file = new URL("codemirror.js", import.meta.url).href;
    import(file).then((loaded: { mount: Mount }) => (mount.value = loaded.mount), () => undefined);
    void functions();
  };
  requestAnimationFrame(() => window.setTimeout(load, 50));
}

async function names(path: string, begin: string): Promise<{ name: string; text: string; more: boolean }[]> {
  const [glob, filter] = [globOf(path), globOf(begin)];
  const directory = nameOfGlob(glob);
  try {
    if (directory !== null) {
      const page = await get<BrowsePage>("plumbago/browse", [["path", directory], ["filter", nameOfGlob(filter) ?? filter], ["limit", "100"]]);
      return page.children.map((child) => ({ name: child.name, text: escaped(child.name), more: child.branch && !child.leaf }));
    }
    const found = await get<{ text: string; leaf: number }[]>("metrics/find", [["query", `${glob}.${filter}*`]]);
    return found.slice(0, 100).map((node) => ({ name: node.text, text: escaped(node.text), more: node.leaf === 0 }));
  } catch {
    return [];
  }
}

async function tags(word: string, others: string[]): Promise<string[]> {
  const equals = word.indexOf("=");
  const asked: [string, string][] = others.map((other) => ["expr", other]);
  try {
    if (equals < 0) return (await get<string[]>("tags/autoComplete/tags", [...asked, ["tagPrefix", word], ["limit", "50"]])).map((tag) => `${tag}=`);
    const tag = word.slice(0, equals).replace(/!$/, "");
    const values = await get<string[]>("tags/autoComplete/values", [...asked, ["tag", tag], ["valuePrefix", word.slice(equals + 1)], ["limit", "50"]]);
    return values.map((value) => `${word.slice(0, equals + 1)}${value}`);
  } catch {
    return [];
  }
}

export function Editor({ panel, place, fault }: { panel: Panel; place: number; fault: Fault | null }) {
  const targets = panel.targets.length > 0 ? panel.targets : [""];
  const keys = useRef(new Keys()).current;
  const box = useRef<HTMLDivElement>(null);
  const change = (number: number, text: string) => setPanel(place, { ...panel, targets: targets.map((old, at) => (at === number ? text : old)) });
  const remove = (number: number) => {
    keys.remove(number);
    setPanel(place, { ...panel, targets: targets.filter((_, at) => at !== number) });
    focusSoon(() => fieldOf(box.current?.querySelectorAll(".target")[Math.min(number, targets.length - 2)]));
  };
  return (
    <div class="targets" ref={box}>
      {targets.map((target, number) => (
        <div class="target" key={keys.at(number)}>
          <Target text={target} label={`Target ${number + 1} of panel ${place + 1}`} fault={fault?.target === target ? fault : null} run={(text) => change(number, text)} />
          {targets.length > 1 && (
            <button type="button" class="icon" aria-label={`Remove target ${number + 1}`} title="Remove this target" onClick={() => remove(number)}>
              ×
            </button>
          )}
          {fault?.target === target && <Place fault={fault} />}
        </div>
      ))}
    </div>
  );
}

/** The field that a target is typed into. */
function fieldOf(target: Element | undefined): HTMLElement | null | undefined {
  return target?.querySelector(".editor")?.shadowRoot?.querySelector<HTMLElement>(".cm-content") ?? target?.querySelector("textarea");
}

/** The part of a target that the daemon did not understand. */
function Place({ fault }: { fault: Fault }) {
  const chars = [...fault.target];
  const end = Math.max(fault.end, fault.begin + 1);
  return (
    <div class="fault">
      <code>
        {visible(chars.slice(0, fault.begin).join(""))}
        <mark title={hintOf(fault)}>{visible(chars.slice(fault.begin, end).join("") || "␣")}</mark>
        {visible(chars.slice(end).join(""))}
      </code>
      {hintOf(fault) !== "" && <span>{hintOf(fault)}</span>}
    </div>
  );
}

/** What to write at the place of a mistake. */
function hintOf(fault: Fault): string {
  if (fault.meant) return `Did you mean ${fault.meant}?`;
  return fault.expected ? `Expected ${visible(fault.expected)}.` : "";
}

interface TargetProps {
  text: string;
  label: string;
  fault: Fault | null;
  run: (text: string) => void;
}

function Target({ text, label, fault, run }: TargetProps) {
  const typed = useSignal(text);
  const at = useSignal(-1);
  const host = useRef<HTMLDivElement>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const handle = useRef<Handle | null>(null);
  /** Where the text field had the cursor, if somebody types in it when the editor takes its place. */
  const cursor = useRef<number | null>(null);
  if (mount.value && area.current && area.current === document.activeElement) cursor.current = area.current.selectionStart;
  const runs = useRef(run);
  runs.current = run;
  useEffect(() => {
    typed.value = text;
    handle.current?.set(text);
  }, [text]);
  useLayoutEffect(() => {
    const element = host.current;
    if (!mount.value || !element) return;
    handle.current = mount.value(element, {
      text: typed.peek(), label, functions, names, tags,
      changed: (next, place) => {
        typed.value = next;
        at.value = place;
      },
      run: (next) => runs.current(next),
    });
    if (cursor.current !== null) handle.current.focus(cursor.current);
    cursor.current = null;
    return () => handle.current?.destroy();
  }, [mount.value]);
  useEffect(() => {
    // The daemon counts characters, the editor units of UTF-16.
    const units = (count: number) => [...(fault?.target ?? "")].slice(0, count).join("").length;
    if (fault) handle.current?.mark(units(fault.begin), units(fault.end), hintOf(fault));
    else handle.current?.mark(-1, -1, "");
  }, [fault, mount.value]);
  useEffect(() => handle.current?.label(label), [label]);
  const waits = typed.value !== text;
  return (
    <>
      {mount.value ? (
        <div class="editor" ref={host} />
      ) : (
        <textarea
          ref={area}
          rows={Math.min(8, typed.value.split("\n").length)}
          aria-label={label}
          spellcheck={false}
          placeholder="target, like sumSeries(web.*.requests)"
          value={typed.value}
          onInput={(event) => (typed.value = event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
            event.preventDefault();
            run(typed.value);
          }}
        />
      )}
      {waits && <button type="button" class="run" title="Ctrl+Enter" onClick={() => run(typed.value)}>Run</button>}
      {typed.value.length > 72 && typed.value.includes("(") && format(typed.value) !== typed.value && (
        <button type="button" title="Break this target into lines" onClick={() => {
          typed.value = format(typed.peek());
          handle.current?.set(typed.value);
        }}>Format</button>
      )}
      <Signature text={typed.value} at={at.value} />
    </>
  );
}

/** The function around the cursor, with its parameters. */
function Signature({ text, at }: { text: string; at: number }) {
  if (at < 0) return null;
  const call = callAt(text, at);
  const described = known.value?.get(call.name);
  if (!described) return null;
  const { before, params } = signature(described);
  const current = Math.min(call.argument, params.length - 1);
  return (
    <div class="signature" role="note">
      <code>
        {before}
        {params.map((param, number) => (
          <>
            {number > 0 && ", "}
            {number === current ? <b>{param}</b> : param}
          </>
        ))}
        )
      </code>
    </div>
  );
}
