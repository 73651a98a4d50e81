// One panel: its targets, the plot, and the legend.

import { useComputed, useSignal, type ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Refusal, type Columns } from "./api";
import { colorOf } from "./colors";
import { Drawn, marksNear, update, type Asked, type Followed } from "./draw";
import { Editor } from "./editor";
import { marks, said } from "./events";
import { Explain } from "./explain";
import { Fetcher } from "./fetcher";
import { focusSoon } from "./focus";
import { Legend } from "./legend";
import { bare, hiddenOf, option, withToggled, type Panel } from "./link";
import { count, duration, moment, short, visible } from "./numbers";
import { Options } from "./options";
import { summary, type Shaped } from "./shape";
import { answered, current, dark, isAbsolute, isSeconds, live, removePanel, setOption, setPanel, setSeconds, showing, spoken, view } from "./state";
import { Unseen } from "./unseen";
import { Values } from "./values";

const HEIGHT = 260;
const TIPS = 12;
const MARKS_SHOWN = 5;

export function PanelView({ panel, place }: { panel: Panel; place: number }) {
  const answer = useSignal<Columns | null>(null);
  const problem = useSignal<{ refusal: Refusal; retryIn: number | null } | null>(null);
  const isLoading = useSignal(false);
  const followed = useSignal<Followed | null>(null);
  const width = useSignal(0);
  const explains = useSignal(false);
  const host = useRef<HTMLDivElement>(null);
  const drawn = useRef<{ drawn: Drawn; asked: Asked } | null>(null);
  const fetcher = useRef<Fetcher | null>(null);

  const { from, until, tz } = view.value;
  const key = JSON.stringify([panel.targets, bare(panel).options, from, until, tz]);
  const isTable = option(panel, "table") === "1";
  const isEmpty = panel.targets.every((target) => target.trim() === "");
  const follows = live.value && !isAbsolute(until) && showing.value === "graphs";

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    // While a table or another view is shown, the plot has no width. Then its last width is used, or at first that of
    // the panel.
    const measure = () => {
      const found = element.clientWidth || (width.peek() === 0 ? (element.parentElement?.clientWidth ?? 0) : 0);
      if (found > 0) width.value = found;
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    if (element.parentElement) observer.observe(element.parentElement);
    return () => observer.disconnect();
  }, []);

  const found = answer.value;
  const names = useMemo(() => found?.series.map((column) => column.name) ?? [], [found]);
  const hidden = useMemo(() => hiddenOf(panel, names), [names, panel.options]);

  const isMeasured = width.value > 0;
  const points = Math.max(100, Math.ceil(width.value / 50) * 50);
  useEffect(() => {
    if (!isMeasured) return;
    fetcher.current ??= new Fetcher((outcome) => {
      isLoading.value = false;
      if ("answer" in outcome) {
        answer.value = outcome.answer;
        answered.value = { key: `${outcome.view.from} ${outcome.view.until} ${outcome.view.tz}`, from: outcome.answer.from, until: outcome.answer.until };
        problem.value = null;
      } else {
        problem.value = { refusal: outcome.problem, retryIn: outcome.retryIn };
      }
    });
    if (isEmpty) {
      fetcher.current.stop();
      answer.value = null;
      problem.value = null;
      return;
    }
    isLoading.value = true;
    fetcher.current.ask(view.peek(), panel, points, follows);
    return () => fetcher.current?.stop();
  }, [key, points, follows, isMeasured]);

  useEffect(() => {
    const element = host.current;
    if (!element || !found || width.value === 0 || isTable) {
      drawn.current?.drawn.destroy();
      drawn.current = null;
      return;
    }
    const number = (name: string) => (option(panel, name) === "" || Number.isNaN(Number(option(panel, name))) ? null : Number(option(panel, name)));
    const asked: Asked = {
      answer: found,
      lineMode: option(panel, "lineMode"),
      areaMode: option(panel, "areaMode"),
      unit: option(panel, "yUnitSystem"),
      yMin: number("yMin"),
      yMax: number("yMax"),
      dark: dark.value,
      zone: tz,
      hidden,
      marks: marks.value,
      width: width.value,
      height: HEIGHT,
    };
    if (drawn.current && Drawn.fits(drawn.current.asked, asked)) {
      if (drawn.current.asked.width !== asked.width) drawn.current.drawn.plot.setSize({ width: asked.width, height: asked.height });
      if (drawn.current.asked.answer !== found) {
        // A zoom that was made in the meantime is not undone by values for the range before it.
        update(drawn.current.drawn, asked);
      }
      drawn.current.asked = asked;
      return;
    }
    drawn.current?.drawn.destroy();
    followed.value = null;
    drawn.current = {
      asked,
      drawn: new Drawn(element, asked, {
        follow: (next) => (followed.value = next),
        range: setSeconds,
      }),
    };
  }, [found, key, width.value, dark.value, hidden, marks.value, isTable]);
  useEffect(() => () => drawn.current?.drawn.destroy(), []);

  const summaries = useMemo(() => found?.series.map((column) => summary(column.values)) ?? [], [found]);
  const isCurrent = current.value === place;
  // The pointer moves often: the parts that follow it are a separate component, and the legend follows only
  // the nearest series.
  const near = useComputed(() => (followed.value?.at == null ? null : followed.value.nearest));
  const nearest = near.value;
  return (
    <section class={`panel${isCurrent ? " current" : ""}`} aria-label={`Panel ${place + 1} ${visible(panel.title)}`} onFocusCapture={() => (current.value = place)} onPointerDown={() => (current.value = place)}>
      <header>
        <Title text={panel.title} number={place + 1} set={(title) => setPanel(place, { ...panel, title })} />
        <span class="state" role="status">{isLoading.value && found === null ? "loading…" : ""}</span>
        <Options panel={panel} place={place} table={isTable} toTable={() => setOption(place, "table", isTable ? "" : "1")} explained={explains.value} explain={() => (explains.value = !explains.value)} />
        <button type="button" class="icon" aria-label={`Remove panel ${place + 1}`} title="Remove this panel" onClick={(event) => remove(place, event.currentTarget)}>×</button>
      </header>
      <Unseen text={panel.title} />
      <Editor panel={panel} place={place} fault={problem.value?.refusal.fault ?? null} />
      {problem.value && <Problem refusal={problem.value.refusal} retryIn={problem.value.retryIn} />}
      {explains.value && !isEmpty && <Explain panel={panel} points={points} />}
      <div
        class={`plot${isLoading.value ? " busy" : ""}`}
        ref={host}
        role="application"
        aria-label={`Plot of panel ${place + 1}. Arrow keys move the cursor, plus and minus zoom, Shift and arrows pan.`}
        tabIndex={0}
        style={isTable ? { display: "none" } : { minHeight: found || !problem.value ? `${HEIGHT}px` : "0" }}
        onKeyDown={(event) => onKey(event, drawn.current?.drawn ?? null, found, tz, option(panel, "yUnitSystem"))}
      >
        {isEmpty && <p class="hint">Search a name above, choose one in the tree, or type a target.</p>}
        {!isEmpty && found?.series.length === 0 && <p class="hint">No series: no name matches, or there are no points in this range.</p>}
        {found && <Tip found={found} shaped={() => drawn.current?.drawn.shaped} followed={followed} zone={tz} unit={option(panel, "yUnitSystem")} hidden={hidden} width={width.value} />}
      </div>
      {found && found.series.length > 0 && isTable && <Table found={found} zone={tz} unit={option(panel, "yUnitSystem")} />}
      {found && found.series.length > 0 && (
        <Legend
          answer={found}
          summaries={summaries}
          unit={option(panel, "yUnitSystem")}
          dark={dark.value}
          hidden={hidden}
          nearest={nearest}
          hide={(name, alone) => setPanel(place, withToggled(panel, names, name, alone))}
        />
      )}
    </section>
  );
}

/** The title of a panel. What is typed stays when the panel is drawn again. */
function Title({ text, number, set }: { text: string; number: number; set: (text: string) => void }) {
  const typed = useSignal(text);
  useEffect(() => {
    typed.value = text;
  }, [text]);
  return (
    <input
      class="title"
      aria-label={`Title of panel ${number}`}
      placeholder={`Panel ${number}`}
      value={typed.value}
      onInput={(event) => (typed.value = event.currentTarget.value)}
      onChange={() => typed.value !== text && set(typed.value)}
    />
  );
}

/** Removes a panel. The focus goes to the next one. */
function remove(place: number, button: HTMLElement): void {
  const graphs = button.closest(".graphs");
  removePanel(place);
  const buttons = () => [...(graphs?.querySelectorAll<HTMLElement>("[aria-label^='Remove panel']") ?? [])];
  focusSoon(() => buttons()[Math.min(place, buttons().length - 1)] ?? graphs?.querySelector<HTMLElement>(".more button"));
}

function Problem({ refusal, retryIn }: { refusal: Refusal; retryIn: number | null }) {
  return (
    <p class="problem" role="alert">
      {visible(refusal.message)}
      {retryIn !== null && ` Tried again in ${duration(retryIn / 1000)}.`}
    </p>
  );
}

interface TipProps {
  found: Columns;
  /** Returns what is drawn now. A function, because the plot is made after this part of the page, and made again for other series. */
  shaped: () => Shaped | undefined;
  followed: ReadonlySignal<Followed | null>;
  zone: string;
  unit: string;
  hidden: ReadonlySet<string>;
  width: number;
}

/** The values under the crosshair, largest first. */
function Tip({ found, shaped, followed: following, zone, unit, hidden, width }: TipProps) {
  const followed = following.value;
  if (!followed) return null;
  const { at } = followed;
  const { own, times } = shaped() ?? { own: [], times: [] };
  if (at === null || times[at] === undefined) return null;
  const rows = found.series
    .map((column, place) => ({ column, place, value: own[place]?.[at] }))
    .filter(({ column, value }) => value !== null && value !== undefined && !hidden.has(column.name))
    .sort((a, b) => (b.value ?? 0) - (a.value ?? 0));
  const place = rows.findIndex((row) => row.place === followed.nearest);
  const first = Math.max(0, Math.min(place - Math.floor(TIPS / 2), rows.length - TIPS));
  const shown = rows.slice(place < 0 ? 0 : first, (place < 0 ? 0 : first) + TIPS);
  const isLeft = followed.left > width / 2;
  const style = { top: "4px", ...(isLeft ? { left: "60px" } : { right: "8px" }) };
  return (
    <div class="tip" style={style} aria-hidden="true">
      <div class="when">{moment(times[at] ?? 0, zone)}</div>
      {shown.map((row) => (
        <div key={row.place} class={row.place === followed.nearest ? "near" : ""}>
          <span class="swatch" style={{ background: colorOf(row.column.options?.color, row.place, dark.value) }} />
          <bdi>{visible(row.column.name)}</bdi>
          <b>{short(row.value, unit)}</b>
        </div>
      ))}
      {rows.length > shown.length && <div class="note">{rows.length - shown.length} more</div>}
      {followed.marks.slice(0, MARKS_SHOWN).map((mark, number) => <div key={`mark ${number}`} class="mark"><bdi>{visible(said(mark))}</bdi></div>)}
    </div>
  );
}

const TABLE_ROWS = 200;
const TABLE_COLUMNS = 20;

/** The values as tables, one for each step, and the events. */
function Table({ found, zone, unit }: { found: Columns; zone: string; unit: string }) {
  return (
    <>
      {found.axes.map((axis, number) => {
        const all = found.series.filter((column) => column.axis === number);
        const columns = all.slice(0, TABLE_COLUMNS);
        const places = Array.from({ length: Math.min(axis.count, TABLE_ROWS) }, (_, at) => axis.count - 1 - at);
        if (columns.length === 0) return null;
        const left = [...(all.length > columns.length ? [`the first ${columns.length} of ${count(all.length)} series`] : []), ...(axis.count > places.length ? [`the newest ${places.length} of ${count(axis.count)} values`] : [])];
        return (
          <div key={number}>
            <div class="values" tabIndex={0} role="group" aria-label={`Values every ${duration(axis.step)}, newest first`}>
              <table>
                <thead>
                  <tr>
                    <th scope="col">time</th>
                    {columns.map((column, place) => <th key={place} scope="col"><bdi>{visible(column.name)}</bdi></th>)}
                  </tr>
                </thead>
                <tbody>
                  {places.map((at) => (
                    <tr key={at}>
                      <th scope="row">{moment(axis.start + at * axis.step, zone)}</th>
                      {columns.map((column, place) => <td key={place}>{unit === "" ? (column.values[at] ?? "–") : short(column.values[at], unit)}</td>)}
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            {left.length > 0 && <p class="note">Shown are {left.join(" and ")}; CSV (Out) has all.</p>}
          </div>
        );
      })}
      {marks.value.length > 0 && (
        <Values label="Events" columns={["event", "at"]} rows={marks.value.map((mark, place) => ({ key: String(place), head: said(mark), cells: [moment(mark.when, zone)] }))} />
      )}
    </>
  );
}

function onKey(event: KeyboardEvent, drawn: Drawn | null, found: Columns | null, zone: string, unit: string): void {
  if (!drawn || !found || event.ctrlKey || event.metaKey || event.altKey || event.target !== event.currentTarget) return;
  const { plot, shaped } = drawn;
  // Keys may come faster than answers. If keys have set a range, that range counts, not the range of the answer.
  const asked = [view.peek().from, view.peek().until];
  const [from = 0, until = 0] = asked.every(isSeconds) ? asked.map(Number) : [found.from, found.until];
  const length = until - from;
  const way = event.key === "ArrowLeft" ? -1 : 1;
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    if (event.shiftKey) {
      setSeconds(from + way * length * 0.25, until + way * length * 0.25);
    } else {
      const at = plot.cursor.idx ?? (way < 0 ? shaped.times.length : -1);
      const next = Math.max(0, Math.min(shaped.times.length - 1, at + way));
      const time = shaped.times[next] ?? 0;
      const left = plot.valToPos(time, "x");
      plot.setCursor({ left, top: plot.over.clientHeight / 2 });
      const values = found.series.slice(0, 5).map((column, place) => `${visible(column.name)} ${short(shaped.own[place]?.[next], unit)}`);
      values.push(...marksNear(plot, marks.value, left).slice(0, MARKS_SHOWN).map((mark) => `event ${visible(said(mark))}`));
      spoken.value = `${moment(time, zone)}: ${values.join(", ")}`;
    }
  } else if (event.key === "+" || event.key === "=") {
    const middle = plot.cursor.idx !== null && plot.cursor.idx !== undefined ? (shaped.times[plot.cursor.idx] ?? from) : (from + until) / 2;
    setSeconds(middle - (middle - from) / 2, middle + (until - middle) / 2);
  } else if (event.key === "-") {
    setSeconds(from - length / 2, until + length / 2);
  } else if (event.key === "Escape") {
    plot.setCursor({ left: -10, top: -10 });
  } else return;
  event.preventDefault();
}
