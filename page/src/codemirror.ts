// The editor of targets. It is a separate file that is loaded after the first paint.

import { autocompletion, completionKeymap, startCompletion, type Completion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, highlightSpecialChars, keymap, placeholder, type DecorationSet } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { callAt, literal, parameterAt, valuesOf, type Described } from "./functions";
import { visible } from "./numbers";

export interface Wishes {
  text: string;
  label: string;
  functions: () => Promise<Map<string, Described>>;
  /** Completions of the last component of a name: the components, their text in a target, and whether there is more below. */
  names: (path: string, begin: string) => Promise<{ name: string; text: string; more: boolean }[]>;
  tags: (expression: string, others: string[]) => Promise<string[]>;
  changed: (text: string, at: number) => void;
  run: (text: string) => void;
}

export interface Handle {
  set: (text: string) => void;
  label: (text: string) => void;
  mark: (begin: number, end: number, hint: string) => void;
  /** Puts the cursor at a place, and the focus into the editor. */
  focus: (at: number) => void;
  destroy: () => void;
}

const language = StreamLanguage.define<object>({
  startState: () => ({}),
  token(stream) {
    if (stream.match(/^(['"])(?:\\.|(?!\1).)*\1?/)) return "string";
    if (stream.match(/^[a-zA-Z_]\w*(?=\s*\()/)) return "keyword";
    if (stream.match(/^[a-zA-Z_]\w*(?=\s*=)/)) return "propertyName";
    if (stream.match(/^-?\d+(\.\d+)?(e[+-]?\d+)?(?![^\s,)])/i)) return "number";
    if (stream.match(/^(true|false|none)(?=[\s,)]|$)/i)) return "bool";
    if (stream.match(/^[^\s,()'"=]+/)) return "variableName";
    stream.next();
    return null;
  },
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent)" },
  { tag: tags.string, color: "var(--good)" },
  { tag: tags.number, color: "var(--number)" },
  { tag: tags.bool, color: "var(--number)" },
  { tag: tags.propertyName, color: "var(--faint)" },
]);

const look = EditorView.theme({
  "&": { font: '12px/1.5 ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace', color: "var(--text)" },
  "&.cm-focused": { outline: "none" },
  ".cm-content": { padding: "3px 0", caretColor: "var(--text)" },
  ".cm-line": { padding: "0 8px" },
  ".cm-scroller": { font: "inherit", maxHeight: "240px" },
  ".cm-placeholder": { color: "var(--faint)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-fault": { textDecoration: "underline wavy var(--bad)", background: "var(--bad-ground)" },
  ".cm-matchingBracket": { outline: "1px solid var(--faint)", background: "none !important" },
  ".cm-tooltip": { background: "var(--raised)", border: "1px solid var(--line)", borderRadius: "5px", maxWidth: "min(520px, 90vw)" },
  ".cm-tooltip-autocomplete > ul": { fontFamily: "inherit !important" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--chosen) !important", color: "var(--text) !important" },
  ".cm-completionInfo": { padding: "6px 10px", whiteSpace: "pre-wrap", maxHeight: "240px", overflow: "auto" },
});

const setFault = StateEffect.define<{ from: number; to: number; hint: string } | null>();
const fault = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, transaction) {
    let next = marks.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (!effect.is(setFault)) continue;
      const place = effect.value;
      next = place && place.from < place.to ? Decoration.set([faultMark(place.hint).range(place.from, place.to)]) : Decoration.none;
    }
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});

function faultMark(hint: string): Decoration {
  return Decoration.mark({ class: "cm-fault", ...(hint === "" ? {} : { attributes: { title: hint } }) });
}

export function mount(host: HTMLElement, wishes: Wishes): Handle {
  // In a shadow root the editor adds its styles as style sheet objects, which no content security policy blocks.
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  root.replaceChildren();
  const label = new Compartment();
  const labelled = (text: string) => EditorView.contentAttributes.of({ "aria-label": text });
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: wishes.text,
      extensions: [
        keymap.of([
          { key: "Mod-Enter", run: (editor) => (wishes.run(editor.state.doc.toString()), true) },
          { key: "Ctrl-Space", run: startCompletion },
          ...completionKeymap,
          ...defaultKeymap.filter((binding) => binding.key !== "Mod-Enter"),
          ...historyKeymap,
        ]),
        history(),
        language,
        bracketMatching(),
        // Characters that are invisible or change the writing direction are shown as a dot.
        highlightSpecialChars(),
        syntaxHighlighting(colours),
        look,
        fault,
        EditorView.lineWrapping,
        placeholder("target, like sumSeries(web.*.requests)"),
        autocompletion({ override: [(context) => complete(context, wishes)], icons: false }),
        EditorView.domEventHandlers({ beforeinput: replaceSelected }),
        label.of(labelled(wishes.label)),
        EditorView.contentAttributes.of({ spellcheck: "false", autocapitalize: "off" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged || update.selectionSet || update.focusChanged) wishes.changed(update.state.doc.toString(), update.state.selection.main.head);
        }),
      ],
    }),
  });
  return {
    set(text) {
      if (text !== view.state.doc.toString()) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
    label(text) {
      view.dispatch({ effects: label.reconfigure(labelled(text)) });
    },
    mark(begin, end, hint) {
      const length = view.state.doc.length;
      view.dispatch({ effects: setFault.of(begin < 0 ? null : { from: Math.min(begin, Math.max(0, length - 1)), to: Math.min(end, length), hint }) });
    },
    focus(at) {
      view.dispatch({ selection: { anchor: Math.min(at, view.state.doc.length) } });
      view.focus();
    },
    destroy: () => view.destroy(),
  };
}

/** Replaces selected text by typed text. Chrome would keep the look of the text in an inline style, which the policy forbids. */
function replaceSelected(event: InputEvent, view: EditorView): boolean {
  if (event.inputType !== "insertText" || event.data === null || view.state.selection.main.empty) return false;
  event.preventDefault();
  view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
  return true;
}

async function complete(context: CompletionContext, wishes: Wishes): Promise<CompletionResult | null> {
  const text = context.state.doc.toString();
  const call = callAt(text, context.pos);
  const functions = await wishes.functions();
  const described = functions.get(call.name);
  if (call.quote !== "") {
    if (call.name === "seriesByTag") {
      const others = [...text.matchAll(/['"]([^'"]*=[^'"]*)['"]/g)].map((found) => found[1] ?? "").filter((other) => other !== call.word);
      const found = await wishes.tags(call.word, others);
      return { from: call.from, options: found.map(shown), filter: false };
    }
    const values = valuesOf(parameterAt(text, call, described)).map(String);
    return values.length > 0 ? { from: call.from, options: values.map((label) => ({ label })) } : null;
  }
  if (call.word === "" && !context.explicit) return null;
  const dot = call.word.lastIndexOf(".");
  const names = await wishes.names(dot < 0 ? "" : call.word.slice(0, dot), call.word.slice(dot + 1));
  const options: Completion[] = names.map(({ name, text: written, more }) => ({
    ...shown(name),
    ...(written === name ? {} : { apply: written }),
    type: "variable",
    ...(more ? { apply: (editor: EditorView, _: Completion, from: number, to: number) => {
      editor.dispatch({ changes: { from, to, insert: `${written}.` }, selection: { anchor: from + written.length + 1 } });
      startCompletion(editor);
    } } : {}),
    ...(more ? { detail: "." } : {}),
  }));
  if (dot < 0) {
    for (const one of functions.values()) {
      options.push({
        label: one.name,
        type: "function",
        detail: "( )",
        boost: -1,
        info: () => information(one),
        apply: (editor, _, from, to) => editor.dispatch({ changes: { from, to, insert: `${one.name}()` }, selection: { anchor: from + one.name.length + 1 } }),
      });
    }
    const param = parameterAt(text, call, described);
    for (const value of valuesOf(param)) {
      options.push({ label: literal(value), type: "constant", detail: value === param?.default ? `${param?.name}, the default` : (param?.name ?? ""), boost: value === param?.default ? 3 : 1 });
    }
    for (const one of described?.params ?? []) {
      options.push({ label: `${one.name}=`, detail: one.default === undefined ? one.type : `${one.type}, ${literal(one.default)} by default`, boost: -2 });
    }
  }
  // The labels are plain names, so the editor must not filter them by the escaped text. The server has found the right ones.
  if (call.word.slice(dot + 1).includes("\\")) return { from: call.from + dot + 1, options, filter: false };
  return { from: call.from + dot + 1, options, validFor: /^[\w-]*$/ };
}

/** An option for a text. What cannot be seen in it is made visible. */
function shown(label: string): Completion {
  return visible(label) === label ? { label } : { label, displayLabel: visible(label) };
}

/** The description of a function, as text. */
function information(described: Described): Node {
  const box = document.createElement("div");
  const head = document.createElement("b");
  head.textContent = described.function;
  box.append(head, document.createTextNode(`\n${described.description.trim().slice(0, 800)}`));
  return box;
}
