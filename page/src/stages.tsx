// Shows what the store has for each stage.

import type { StoreStage, StoreStages } from "./api";
import { count, many, moment, retention, short } from "./numbers";
import { Values } from "./values";

const UNKNOWN = "not known";

export function Stages({ store }: { store: StoreStages }) {
  return (
    <>
      <h3>Store by stage</h3>
      {store.kind === "embedded" ? <Embedded store={store} /> : <Cassandra store={store} />}
    </>
  );
}

function Embedded({ store }: { store: StoreStages }) {
  const others: [string, number | null | undefined][] = [["open windows", store.state_bytes], ["names and settings", store.names_bytes], ["write-ahead logs", store.log_bytes]];
  return (
    <>
      {store.stages.length === 0 && <p class="note">{store.log_bytes === null ? "The store is closed or being opened again: not known." : "No points are in the store yet; new ones are in memory and in the journal."}</p>}
      {store.stages.length > 0 && (
        <Values
          label="Store by stage"
          columns={["stage", "holds", "blocks", "long blocks", "on disk", "since"]}
          rows={store.stages.map((stage) => ({
            ...heading(stage),
            cells: [stage.holds, ...[stage.blocks, stage.long_blocks].map(known), bytes(stage.bytes), stage.since === undefined ? UNKNOWN : moment(stage.since, "")],
          }))}
        />
      )}
      <p class="note">
        {others.map(([what, size]) => `${what} ${bytes(size)}`).join(", ")}. A block holds the points of one metric. Replaced blocks count until the tables are compacted; those in no table yet are in the logs.
      </p>
    </>
  );
}

function Cassandra({ store }: { store: StoreStages }) {
  const unused = store.stages.filter((stage) => stage.used === false).length;
  return (
    <>
      <Values
        label="Store by stage"
        columns={["stage", "holds", "table", "state", "rows", "on disk"]}
        rows={store.stages.map((stage) => ({
          ...heading(stage),
          cells: [stage.holds, stage.table ?? "", stateOf(stage), known(stage.rows), bytes(stage.bytes)],
        }))}
      />
      <p class="note">
        Tables of the keyspace {store.keyspace}, of the storage rules and of what was read or written since the start{unused > 0 && ` (${many(unused, "table")} not used)`}. The servers are not asked for sizes: nodetool tablestats shows them.
      </p>
    </>
  );
}

function heading(stage: StoreStage) {
  return { key: `${stage.stage} ${stage.holds}`, head: retention(stage.stage), title: `${count(stage.slots)} slots of ${many(stage.step, "second")} for each metric` };
}

function stateOf(stage: StoreStage): string {
  if (stage.trouble) return stage.trouble;
  return stage.used ? "in use" : "not used since the start";
}

function known(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : count(value);
}

function bytes(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : `${short(value, "binary")}B`;
}
