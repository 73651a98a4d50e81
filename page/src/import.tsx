// Imports graphs of other programs: pasted, dropped or from a file.

import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { useReturn } from "./focus";
import { filled, readImport, TEXT_MAX, Unreadable, type Imported } from "./imports";
import { count, many, visible } from "./numbers";
import { change, spoken, view } from "./state";
import { Unseen } from "./unseen";

/** The newest text for the dialog, in a new object each time; null if the dialog is closed. */
export const importing = signal<{ text: string } | null>(null);

/** What was wrong with the last file; "" for nothing. */
const fileProblem = signal("");
/** Counts what was given to the dialog: a file that is read slowly must not replace what came after it. */
let given = 0;

/** Reads files into the dialog: the first one, if there are several. */
async function take(files: FileList | null | undefined): Promise<void> {
  const file = files?.[0];
  if (!file) return;
  const number = ++given;
  fileProblem.value = files.length > 1 ? `Only the first of ${files.length} files was read: ${file.name}.` : "";
  importing.value ??= { text: "" };
  try {
    if (file.size > TEXT_MAX) throw new Unreadable("is larger than 20 MB");
    const text = await file.text();
    if (number !== given) return;
    if (text.trim() === "") throw new Unreadable("is empty");
    importing.value = { text };
  } catch (error) {
    if (number !== given) return;
    fileProblem.value = `${file.name} ${error instanceof Unreadable ? error.message : "cannot be read: it may be a directory, or was changed or removed"}.`;
  }
}

/** Opens the dialog when something is dropped on the page. Returns a function that stops this. */
export function followDrops(): () => void {
  const over = (event: DragEvent) => event.preventDefault();
  const drop = (event: DragEvent) => {
    const data = event.dataTransfer;
    // The browser puts a text into a field, but would leave the page for a file. The editor reads files itself.
    const field = data?.files.length ? ".editor" : "input, textarea, .editor";
    if (!data || (event.target instanceof HTMLElement && event.target.closest(field))) return;
    event.preventDefault();
    if (data.files.length > 0) void take(data.files);
    else if (data.getData("text/plain") !== "") {
      given++;
      fileProblem.value = "";
      importing.value = { text: data.getData("text/plain") };
    }
  };
  window.addEventListener("dragover", over);
  window.addEventListener("drop", drop);
  return () => {
    window.removeEventListener("dragover", over);
    window.removeEventListener("drop", drop);
  };
}

export function ImportDialog() {
  const shown = useRef(importing.peek());
  const text = useSignal(shown.current?.text ?? "");
  const values = useSignal<ReadonlyMap<string, string>>(new Map());
  const area = useRef<HTMLTextAreaElement>(null);
  const dialog = useRef<HTMLDivElement>(null);
  useReturn(dialog);
  useEffect(() => area.current?.focus(), []);
  useEffect(() => {
    // The first text is there already, and may have been edited before this effect runs.
    if (!importing.value || importing.value === shown.current) return;
    shown.current = importing.value;
    text.value = importing.value.text;
  }, [importing.value]);
  // Runs however the dialog is closed: by its own buttons, or by the button that opens it.
  useEffect(() => () => {
    given++;
    fileProblem.value = "";
  }, []);
  const close = () => (importing.value = null);
  const read = reading(text.value);
  const accept = (adds: boolean) => {
    if (!(read && "imported" in read)) return;
    const { imported } = read;
    const made = filled(imported, imported.variables.map(([name, value]) => [name, values.value.get(name) ?? value]));
    change(adds ? { ...view.peek(), panels: [...view.peek().panels, ...made.panels] } : made);
    spoken.value = `${many(made.panels.length, "panel")} shown`;
    close();
  };
  return (
    <div class="help import" ref={dialog} role="dialog" aria-label="Import graphs" aria-modal="false" onKeyDown={(event) => event.key === "Escape" && close()}>
      <h2>Import graphs</h2>
      <p class="note" id="import-help">Paste or drop an address of /render, a link of Grafana's Explore, or the JSON of a dashboard or panel of Grafana or of a dashboard of graphite-web.</p>
      <textarea ref={area} rows={8} spellcheck={false} aria-label="Address or JSON" aria-describedby="import-help" value={text.value} onInput={(event) => {
        text.value = event.currentTarget.value;
        given++;
        fileProblem.value = "";
      }} />
      <Unseen text={text.value} />
      <label class="file">
        or a file <input type="file" accept=".json,.txt,application/json,text/plain" onClick={(event) => (event.currentTarget.value = "")} onChange={(event) => void take(event.currentTarget.files)} />
      </label>
      {fileProblem.value !== "" && <p class="problem" role="alert">{visible(fileProblem.value)}</p>}
      {read && "problem" in read && <p class="problem" role="alert">{visible(read.problem)}</p>}
      {read && "imported" in read && <Found imported={read.imported} values={values.value} set={(name, value) => (values.value = new Map([...values.value, [name, value]]))} />}
      <div class="more">
        <button type="button" disabled={!(read && "imported" in read)} onClick={() => accept(false)}>Show</button>
        <button type="button" disabled={!(read && "imported" in read)} onClick={() => accept(true)}>Add</button>
        <button type="button" class="quiet" onClick={close}>Close</button>
      </div>
    </div>
  );
}

function reading(text: string): { imported: Imported } | { problem: string } | null {
  if (text.trim() === "") return null;
  try {
    return { imported: readImport(text) };
  } catch (error) {
    return { problem: error instanceof Unreadable ? error.message : String(error) };
  }
}

interface FoundProps {
  imported: Imported;
  values: ReadonlyMap<string, string>;
  set: (name: string, value: string) => void;
}

function Found({ imported, values, set }: FoundProps) {
  const { view: found, variables, leftOut } = imported;
  const targets = found.panels.reduce((sum, panel) => sum + panel.targets.length, 0);
  return (
    <>
      <p role="status">{many(found.panels.length, "panel")} with {many(targets, "target")}</p>
      {variables.length > 0 && (
        <fieldset>
          <legend>Variables</legend>
          {variables.map(([name, value]) => (
            <label key={name}>
              <bdi>{visible(name)}</bdi> <input value={values.get(name) ?? value} onInput={(event) => set(name, event.currentTarget.value)} />
            </label>
          ))}
        </fieldset>
      )}
      {leftOut.length > 0 && (
        <details open>
          <summary>{count(leftOut.length)} left out</summary>
          <ul tabIndex={0} aria-label="Left out">{leftOut.slice(0, 50).map((one, place) => <li key={place}>{visible(one)}</li>)}</ul>
        </details>
      )}
    </>
  );
}
