// How a panel is drawn, in /render's own parameters.

import { option, type Panel } from "./link";
import { setOption, setPanel } from "./state";

const SHAPES: [name: string, lineMode: string, areaMode: string][] = [
  ["Line", "", ""],
  ["Area", "", "all"],
  ["Stacked", "", "stacked"],
  ["Staircase", "staircase", ""],
  ["Connected", "connected", ""],
];
const UNITS: [name: string, system: string][] = [["SI", ""], ["1024", "binary"], ["plain", "none"], ["seconds", "sec"], ["ms", "msec"]];

interface Props {
  panel: Panel;
  place: number;
  table: boolean;
  toTable: () => void;
}

export function Options({ panel, place, table, toTable }: Props) {
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
          setOption(place, "lineMode", chosen[1]);
          setOption(place, "areaMode", chosen[2]);
        }}
      >
        {shape < 0 && <option value={-1}>as asked</option>}
        {SHAPES.map(([name], number) => <option key={name} value={number}>{name}</option>)}
      </select>
      <select aria-label={`Unit of panel ${place + 1}`} value={option(panel, "yUnitSystem")} onChange={(event) => setOption(place, "yUnitSystem", event.currentTarget.value)}>
        {UNITS.map(([name, system]) => <option key={name} value={system}>{name}</option>)}
      </select>
      <button type="button" title="A further target" onClick={() => setPanel(place, { ...panel, targets: [...(panel.targets.length > 0 ? panel.targets : [""]), ""] })}>+ target</button>
      <button type="button" aria-pressed={table} onClick={toTable}>Table</button>
    </span>
  );
}
