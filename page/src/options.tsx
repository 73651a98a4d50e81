// How a panel is drawn, in /render's own parameters.

import { grafanaPanel } from "./imports";
import { bare, formatView, option, type Panel } from "./link";
import { setOption, setOptions, setPanel, view, zone } from "./state";

const SHAPES: [name: string, lineMode: string, areaMode: string][] = [
  ["Line", "", ""],
  ["Area", "", "all"],
  ["Stacked", "", "stacked"],
  ["Staircase", "staircase", ""],
  ["Connected", "connected", ""],
];
const UNITS: [name: string, system: string][] = [["SI", ""], ["1024", "binary"], ["plain", "none"], ["seconds", "sec"], ["ms", "msec"]];

/** The unit of a panel as in the list. */
function unitOf(panel: Panel): string {
  const system = option(panel, "yUnitSystem");
  return system === "si" ? "" : system;
}

const FORMATS = ["png", "svg", "csv", "json"];

/** The address of the panel in a format of /render. */
function address(panel: Panel, format: string): string {
  const { from, until } = view.value;
  const text = formatView({ from, until, tz: zone.value, panels: [bare(panel)] });
  return `render?${text}&format=${format}${format === "png" || format === "svg" ? "&width=1000&height=400" : ""}`;
}

function curl(panel: Panel): string {
  const url = new URL(address(panel, "json"), location.href.replace(/[?#].*$/, "")).href;
  // Without -g, curl would take brackets and braces for lists of addresses.
  return `curl -g '${url.replaceAll("'", "%27")}'`;
}

async function copy(text: string, button: HTMLElement): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    window.prompt("Copy this", text);
  }
}

interface Props {
  panel: Panel;
  place: number;
  table: boolean;
  toTable: () => void;
  explained: boolean;
  explain: () => void;
}

export function Options({ panel, place, table, toTable, explained, explain }: Props) {
  const [lineMode, areaMode] = [option(panel, "lineMode"), option(panel, "areaMode")];
  const shape = SHAPES.findIndex(([, line, area]) => line === (lineMode === "slope" ? "" : lineMode) && area === (areaMode === "none" ? "" : areaMode));
  return (
    <span class="options">
      <select
        aria-label={`Shape of panel ${place + 1}`}
        value={shape}
        onChange={(event) => {
          const chosen = SHAPES[Number(event.currentTarget.value)];
          if (!chosen) return;
          setOptions(place, [["lineMode", chosen[1]], ["areaMode", chosen[2]]]);
        }}
      >
        {shape < 0 && <option value={-1}>as asked</option>}
        {SHAPES.map(([name], number) => <option key={name} value={number}>{name}</option>)}
      </select>
      <select aria-label={`Unit of panel ${place + 1}`} value={unitOf(panel)} onChange={(event) => setOption(place, "yUnitSystem", event.currentTarget.value)}>
        {UNITS.every(([, system]) => system !== unitOf(panel)) && <option value={unitOf(panel)}>as asked</option>}
        {UNITS.map(([name, system]) => <option key={name} value={system}>{name}</option>)}
      </select>
      <button type="button" title="A further target" onClick={() => setPanel(place, { ...panel, targets: [...(panel.targets.length > 0 ? panel.targets : [""]), ""] })}>+ target</button>
      <details class="out" onKeyDown={(event) => event.key === "Escape" && (event.currentTarget.open = false)}>
        <summary aria-label={`Take out panel ${place + 1}`}>Out</summary>
        <ul>
          {FORMATS.map((format) => (
            <li key={format}>
              <a href={address(panel, format)} target="_blank" rel="noopener noreferrer">{format.toUpperCase()}</a>
            </li>
          ))}
          <li>
            <button type="button" onClick={(event) => void copy(curl(panel), event.currentTarget)}>Copy as curl</button>
          </li>
          <li>
            <button type="button" onClick={(event) => void copy(grafanaPanel(panel), event.currentTarget)}>Copy as Grafana panel</button>
          </li>
        </ul>
      </details>
      <button type="button" aria-pressed={table} onClick={toTable}>Table</button>
      <button type="button" aria-pressed={explained} title="Why this graph looks the way it does" onClick={explain}>Explain</button>
    </span>
  );
}
