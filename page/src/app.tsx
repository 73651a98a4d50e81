// The page: search and time range above, names on the left, panels on the right.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { waiting } from "./api";
import { Boards } from "./boards";
import { CostsView } from "./costs";
import { marksProblem } from "./events";
import { useReturn } from "./focus";
import { followDrops, ImportDialog, importing } from "./import";
import { emptyPanel } from "./link";
import { PanelView } from "./panel";
import { freeze, Range } from "./range";
import { RulesView } from "./rules";
import { Search } from "./search";
import { addPanel, change, dark, helping, panelKeys, refused, save, show, showing, sidebar, spoken, theme, unread, view } from "./state";
import { StatusView } from "./status";
import { Tags } from "./tags";
import { Tree } from "./tree";
import { visible } from "./numbers";
import { isOld } from "./version";

export function App() {
  const tab = useSignal<"names" | "tags" | "boards">("names");
  useEffect(followDrops, []);
  useEffect(() => {
    if (view.peek().panels.length === 0) view.value = { ...view.peek(), panels: [emptyPanel()] };
    const onKey = (event: KeyboardEvent) => {
      const target = event.target;
      const types = target instanceof HTMLElement && (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.shadowRoot !== null);
      if (event.key === "?" && !types) helping.value = !helping.value;
      else if (event.key === "Escape" && helping.value) helping.value = false;
      else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  return (
    <>
      <header class="top">
        <button type="button" class="icon" aria-label="Names" aria-expanded={sidebar.value} title="Show or hide the names" onClick={() => (sidebar.value = !sidebar.value)}>☰</button>
        <h1>Plumbago</h1>
        <Search />
        <Range />
        <span class="tools">
          <button type="button" aria-pressed={showing.value === "status"} title="What the daemon is doing" onClick={() => show(showing.value === "status" ? "graphs" : "status")}>Status</button>
          <button type="button" aria-pressed={showing.value === "rules"} title="What the rules do with a name, and what other rules would do" onClick={() => show(showing.value === "rules" ? "graphs" : "rules")}>Rules</button>
          <button type="button" aria-pressed={showing.value === "costs"} title="The biggest directories and tags, the newest metrics, and those that nobody uses" onClick={() => show(showing.value === "costs" ? "graphs" : "costs")}>Costs</button>
          <button type="button" aria-expanded={importing.value !== null} title="Graphs of Grafana or graphite-web" onClick={() => (importing.value = importing.value === null ? { text: "" } : null)}>Import</button>
          <button type="button" title="Make the times absolute, so that this link shows the same later" onClick={() => void freeze()}>Freeze</button>
          <Copy />
          <button type="button" class="icon" aria-label={dark.value ? "Light colours" : "Dark colours"} title="Dark or light" onClick={() => {
            theme.value = dark.value ? "light" : "dark";
            save("theme", theme.value);
          }}>◐</button>
          <button type="button" class="icon" aria-label="Help" title="Keys (?)" onClick={() => (helping.value = !helping.value)}>?</button>
        </span>
      </header>
      <div class={`body${sidebar.value ? " with-names" : ""}`}>
        {sidebar.value && (
          <nav aria-label="Names and tags">
            <div class="tabs" role="tablist">
              {(["names", "tags", "boards"] as const).map((name) => (
                <button key={name} type="button" role="tab" id={`tab-${name}`} aria-selected={tab.value === name} aria-controls="names-panel" onClick={() => (tab.value = name)}>
                  {name === "names" ? "Names" : name === "tags" ? "Tags" : "Boards"}
                </button>
              ))}
            </div>
            <div class="names" id="names-panel" role="tabpanel" aria-labelledby={`tab-${tab.value}`}>{tab.value === "names" ? <Tree /> : tab.value === "tags" ? <Tags /> : <Boards />}</div>
          </nav>
        )}
        <main>
          <Notices />
          {showing.value === "status" && <StatusView />}
          {showing.value === "rules" && <RulesView />}
          {showing.value === "costs" && <CostsView />}
          <div class="graphs" hidden={showing.value !== "graphs"}>
            {view.value.panels.map((panel, place) => <PanelView key={panelKeys.at(place)} panel={panel} place={place} />)}
            <div class="more">
              <button type="button" onClick={() => addPanel()}>+ panel</button>
              {view.value.panels.length > 1 && <button type="button" class="quiet" onClick={() => change({ ...view.value, panels: [emptyPanel()] })}>Clear all</button>}
            </div>
          </div>
        </main>
      </div>
      {helping.value && <Help />}
      {importing.value !== null && <ImportDialog />}
      <div class="sr" role="status" aria-live="polite">{spoken.value}</div>
    </>
  );
}

/** Notices about the whole page: a daemon that hangs or has a newer page, and a link that is not understood. */
function Notices() {
  return (
    <>
      {waiting.value > 0 && <p class="problem notice" role="status">The daemon has not answered for 5 s. The page waits; what it shows is from before.</p>}
      {isOld.value && (
        <p class="problem notice" role="status">
          The daemon has a newer page than this one. Run what you have typed, then load it; the view is in the address. <button type="button" onClick={() => location.reload()}>Load it</button>
        </p>
      )}
      {unread.value.length > 0 && (
        <p class="problem notice" role="alert">
          Parts of the link cannot be read or shown: {visible(unread.value.join("; "))}. <button type="button" onClick={() => (unread.value = [])}>Close</button>
        </p>
      )}
      {marksProblem.value !== "" && <p class="problem notice" role="alert">The events: {visible(marksProblem.value)}</p>}
      {refused.value !== "" && (
        <p class="problem notice" role="alert">
          {visible(refused.value)} <button type="button" onClick={() => (refused.value = "")}>Close</button>
        </p>
      )}
    </>
  );
}

function Copy() {
  const said = useSignal("");
  return (
    <button type="button" title="Copy the link of this view" onClick={async () => {
      try {
        await navigator.clipboard.writeText(location.href);
        said.value = "Copied";
      } catch {
        said.value = "Copy it from the address bar";
      }
      window.setTimeout(() => (said.value = ""), 2000);
    }}>
      {said.value || "Link"}
    </button>
  );
}

const KEYS: [keys: string, what: string][] = [
  ["/", "search names"],
  ["Enter, Shift+Enter", "plot what is chosen; add it to the current panel"],
  ["↑ ↓ ← →", "move in the tree, open and close directories"],
  ["f", "in the tree: filter within the open directory"],
  ["Ctrl+Enter", "in a target: run it"],
  ["← →", "on a plot: move the cursor"],
  ["Shift+← →", "on a plot: pan"],
  ["+ −", "on a plot: zoom"],
  ["drag", "on a plot: zoom into the part"],
  ["Ctrl+wheel, Shift+wheel", "on a plot: zoom, pan; two fingers too"],
  ["Back", "of the browser: the view before"],
  ["?", "this help"],
];

function Help() {
  const dialog = useRef<HTMLDivElement>(null);
  useReturn(dialog);
  return (
    <div class="help" ref={dialog} role="dialog" aria-label="Keys" aria-modal="false">
      <h2>Keys</h2>
      <dl>
        {KEYS.map(([keys, what]) => (
          <>
            <dt><kbd>{keys}</kbd></dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <button type="button" onClick={() => (helping.value = false)}>Close</button>
    </div>
  );
}
