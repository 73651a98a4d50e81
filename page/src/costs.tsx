// Costs: the biggest directories and tags, the newest metrics, and those that are not written or read.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { get, type BiggestTags, type CostDirectory, type Costs, type Counts, type Unused } from "./api";
import { Problem, useRequest } from "./asking";
import { Command, CopyCommand } from "./command";
import { deleting, info, list, measure, tagged } from "./commands";
import { count, many, moment, short, visible } from "./numbers";
import { token, Token } from "./token";

/** The parameters of the request. They stay while other parts of the page are shown. */
const days = signal("90");
const depth = signal("1");
const under = signal("");
const tag = signal("");

export function CostsView() {
  const { answer, problem, busy, send } = useRequest<Costs>();
  const heading = useRef<HTMLHeadingElement>(null);
  const ask = () =>
    send(
      (signal) => get("plumbago/costs", [["days", days.value], ["depth", depth.value], ["under", under.value], ["tag", tag.value]], signal, token()),
      (found) => `${many(found.total.metrics, "metric")} counted`,
    );
  const open = (path: string) => {
    under.value = path;
    // The pressed button disappears with the old answer.
    heading.current?.focus();
    ask();
  };
  const openTag = (name: string) => {
    tag.value = name;
    ask();
  };
  useEffect(ask, []);
  const found = answer.value;
  return (
    <section class="status costs" aria-label="What costs">
      <h2 ref={heading} tabIndex={-1}>What costs</h2>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          ask();
        }}
      >
        <Amount label="Days without use" id="costs-days" most={3660} text={days} />
        <Amount label="Depth of directories" id="costs-depth" most={64} text={depth} />
        <button type="submit">Count</button>
      </form>
      <Path open={open} />
      {busy.value && <p class="note" role="status">counting…</p>}
      {problem.value && <Problem refusal={problem.value} />}
      {problem.value?.status === 401 && <Token action="Show what costs" done={ask} />}
      {found && (
        <>
          <Directories found={found} open={open} />
          <Nobody found={found} open={open} />
          <Newest found={found} />
          <Tags found={found} open={openTag} />
        </>
      )}
    </section>
  );
}

function Amount({ label, id, most, text }: { label: string; id: string; most: number; text: typeof days }) {
  return (
    <label>
      {label} <input type="number" id={id} min={1} max={most} required value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} />
    </label>
  );
}

/** The way to the directory that is open. */
function Path({ open }: { open: (path: string) => void }) {
  const parts = under.value === "" ? [] : under.value.split(".");
  return (
    <nav aria-label="The open directory">
      <ol class="path">
        {["Everything", ...parts].map((part, place) => {
          const path = parts.slice(0, place).join(".");
          return (
            <li key={path}>
              {place === parts.length ? <b aria-current="location">{visible(part)}</b> : <button type="button" onClick={() => open(path)}>{visible(part)}</button>}
            </li>
          );
        })}
      </ol>
    </nav>
  );
}

interface Line {
  key: string;
  head: ComponentChildren;
  cells: ComponentChildren[];
}

/** A table that scrolls on its own. The columns named in `texts` are not numbers. */
function Table({ caption, columns, texts = [], lines }: { caption: string; columns: string[]; texts?: string[]; lines: Line[] }) {
  const kind = (name: string) => (texts.includes(name) ? "text" : undefined);
  return (
    <div class="values" tabIndex={0} role="group" aria-label={caption}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>{columns.map((name) => <th key={name} scope="col" class={kind(name)}>{name}</th>)}</tr>
        </thead>
        <tbody>
          {lines.map((line) => (
            <tr key={line.key}>
              <th scope="row">{line.head}</th>
              {line.cells.map((cell, place) => <td key={place} class={kind(columns[place + 1] ?? "")}>{cell}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function bytes(value: number | null): string {
  return value === null ? "–" : `${short(value, "binary")}B`;
}

function known(value: number | null): string {
  return value === null ? "–" : count(value);
}

function percent(share: number): string {
  return share > 0 && share < 0.0005 ? "<0.1 %" : `${(share * 100).toFixed(1)} %`;
}

function copyOf(text: string | null): ComponentChildren {
  return text === null ? "–" : <span><code>{visible(text)}</code> <CopyCommand text={text} /></span>;
}

/** A directory as the heading of a line: it opens, unless only the metrics directly in it count. */
function head(one: CostDirectory, open: (path: string) => void): ComponentChildren {
  const name = one.path === "" ? "(top)" : visible(one.path);
  if (one.direct) return <bdi>{name} <span class="facts">directly in it</span></bdi>;
  return <button type="button" aria-label={`Open ${name}`} onClick={() => open(one.path)}><bdi>{name}</bdi></button>;
}

function keyOf(one: CostDirectory): string {
  return `${one.direct} ${one.path}`;
}

function Directories({ found, open }: { found: Costs; open: (path: string) => void }) {
  const { total, tagged, directories, asked } = found;
  const estimate = found.origin === "embedded" ? "1.44 bytes a point and 5.08 a window, as measured on other metrics" : "24 bytes a point, as BigGraphite does for Cassandra's tables";
  return (
    <>
      <p>
        {many(total.metrics, "metric")}{asked.under === "" ? "" : <> below <code>{visible(asked.under)}</code></>}, {bytes(total.bytes)} when full
        {total.stored_bytes === null ? "" : `, ${bytes(total.stored_bytes)} in the store now`}
        {tagged.metrics === 0 ? "." : `. ${count(tagged.metrics)} of them with tags, in no directory (${bytes(tagged.bytes)} when full).`}
      </p>
      {!found.complete && <p class="problem">Not all metrics were counted: <code>api.limits.request_time</code> or <code>api.limits.find_visited</code> ended the count. All numbers are of the metrics that were counted; open a directory to count less.</p>}
      {found.missing.map((why) => <p key={why} class="note">Not answered: {visible(why)}.</p>)}
      <h3>Biggest directories</h3>
      {directories.rows.length === 0 && <p class="note">There is none.</p>}
      {directories.rows.length > 0 && (
        <Table
          caption={`Directories with the most bytes when full, ${count(directories.rows.length)} of ${count(directories.total)}`}
          columns={["directory", "metrics", "bytes when full", "share", "stored now", "not written", "not read", "to measure it"]}
          texts={["to measure it"]}
          lines={directories.rows.map((one) => ({
            key: keyOf(one),
            head: head(one, open),
            cells: [count(one.metrics), bytes(one.bytes), percent(one.share), bytes(one.stored_bytes), count(one.unwritten), known(one.unread), copyOf(one.direct ? list(one.path, true, 0, false, false) : measure(one.path))],
          }))}
        />
      )}
      {directories.cut && <p class="note">There are too many directories to count at a time: small ones were left out, and a directory may have more than its row says.</p>}
      <p class="note">Bytes when full are estimated from the retention: {estimate}. What is stored now is measured, of 2,000 metrics at most in the embedded store.</p>
    </>
  );
}

/** Metrics that nobody writes, that nobody reads, and both. */
function Nobody({ found, open }: { found: Costs; open: (path: string) => void }) {
  const { unwritten, unread, both } = found;
  const span = many(found.asked.days, "day");
  return (
    <>
      <h3>Not used</h3>
      <Group found={found} title={`Not written for ${span}`} group={unwritten} of={(one) => one.unwritten} options={[true, false]} open={open} />
      {unread && <Group found={found} title={`Not read for ${span}`} group={unread} of={(one) => one.unread} options={[false, true]} open={open} />}
      {both && <Group found={found} title={`Neither written nor read for ${span}`} group={both} of={(one) => one.both} options={[true, true]} open={open} />}
      {unread && <p class="note">Reads are noted to the day. A metric without a note counts as read when it was created.{found.origin === "cassandra" ? " On Cassandra a sample of the reads is noted (store.cassandra.read_on_sampling)." : ""}</p>}
    </>
  );
}

function Group({ found, title, group, of, options, open }: { found: Costs; title: string; group: Unused; of: (one: Counts) => number | null; options: [boolean, boolean]; open: (path: string) => void }) {
  const whole = list(found.asked.under, false, found.asked.days, ...options);
  return (
    <>
      <p>
        {title}: <b>{count(group.metrics)}</b> of {many(found.total.metrics, "metric")}
        {group.examples.length > 0 && <>, such as {group.examples.map((name, place) => <span key={name}>{place > 0 && ", "}<code>{visible(name)}</code></span>)}</>}
      </p>
      {group.directories.length > 0 && (
        <Table
          caption={`${title}: the directories with the most`}
          columns={["directory", "not used", "of its metrics", "to list them"]}
          texts={["to list them"]}
          lines={group.directories.map((one) => ({
            key: keyOf(one),
            head: head(one, open),
            cells: [known(of(one)), count(one.metrics), copyOf(list(one.path, one.direct, found.asked.days, ...options))],
          }))}
        />
      )}
      {group.directories.length > 0 && whole !== null && <Command text={deleting(whole)} what="What a deletion would remove:" />}
    </>
  );
}

function Newest({ found }: { found: Costs }) {
  const file = found.schemas === null ? "built-in rules" : visible(found.schemas.split("/").pop() ?? found.schemas);
  const rule = (one: Costs["newest"][number]) => (one.section === null ? "no section (carbon's default)" : `${visible(one.section)} (${file}:${one.line ?? "–"})`);
  if (found.newest.length === 0) return null;
  return (
    <>
      <h3>Newest metrics</h3>
      <Table
        caption="Metrics that were created last"
        columns={["metric", "created", "retention", "rule in force", "to see more of it"]}
        texts={["created", "retention", "rule in force", "to see more of it"]}
        lines={found.newest.map((one) => ({
          key: one.name,
          head: <bdi>{visible(one.name)}</bdi>,
          cells: [moment(one.created_on, ""), one.retention, `${rule(one)}${one.differs ? ", which gives another retention now" : ""}`, copyOf(info(one.name))],
        }))}
      />
    </>
  );
}

function Tags({ found, open }: { found: Costs; open: (name: string) => void }) {
  const { tags } = found;
  if (tags === null || tags.tags.total === 0) return null;
  return (
    <>
      <h3>Biggest tags</h3>
      <Table
        caption={`Tags that most series have, ${count(tags.tags.biggest.length)} of ${count(tags.tags.total)}`}
        columns={["tag", "series", "values"]}
        lines={tags.tags.biggest.map((one) => ({
          key: one.text,
          head: <button type="button" aria-label={`Show the values of ${visible(one.text)}`} onClick={() => open(one.text)}><bdi>{visible(one.text)}</bdi></button>,
          cells: [count(one.series), count(one.values)],
        }))}
      />
      {tags.tag !== null && tags.values !== null && <TagValues tag={tags.tag} values={tags.values} />}
    </>
  );
}

function TagValues({ tag, values }: { tag: string; values: BiggestTags }) {
  return (
    <Table
      caption={`Values of ${visible(tag)} that most series have, ${count(values.biggest.length)} of ${count(values.total)}`}
      columns={["value", "series", "to list them"]}
      texts={["to list them"]}
      lines={values.biggest.map((one) => ({ key: one.text, head: <bdi>{visible(one.text)}</bdi>, cells: [count(one.series), copyOf(tagged(tag, one.text))] }))}
    />
  );
}
