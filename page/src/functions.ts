// The descriptions from /functions, and the syntax at a position in a target. No access to the browser.

export interface Parameter {
  name: string;
  type: string;
  required?: boolean;
  default?: unknown;
  multiple?: boolean;
  options?: unknown[];
  suggestions?: unknown[];
}

export interface Described {
  name: string;
  function: string;
  description: string;
  params: Parameter[];
}

export interface Call {
  /** The innermost function that is open at the place, "" outside of calls. */
  name: string;
  /** The number of its argument there, from 0. */
  argument: number;
  /** Where the word at the place begins. */
  from: number;
  word: string;
  /** The quote that is open, or "". */
  quote: string;
}

/** What is around a place in a target. */
export function callAt(text: string, at: number): Call {
  const open: { name: string; argument: number }[] = [];
  let quote = "";
  let from = 0;
  let braces = 0;
  for (let place = 0; place < at; place++) {
    const char = text[place] ?? "";
    if (quote !== "") {
      if (char === "\\") place++;
      else if (char === quote) [quote, from] = ["", place + 1];
    } else if (char === "\\") place++;
    else if (char === "'" || char === '"') [quote, from] = [char, place + 1];
    else if (char === "{") braces++;
    else if (char === "}") braces--;
    else if (char === "(") {
      open.push({ name: text.slice(from, place).trim(), argument: 0 });
      from = place + 1;
    } else if (char === ")") {
      open.pop();
      from = place + 1;
    } else if (char === "," && braces <= 0) {
      const last = open.at(-1);
      if (last) last.argument++;
      from = place + 1;
    } else if (/\s|=/.test(char)) from = place + 1;
  }
  const last = open.at(-1);
  return { name: last?.name ?? "", argument: last?.argument ?? 0, from, word: text.slice(from, at), quote };
}

/** The parameter that the argument at a place is for: by its keyword, or by its number. */
export function parameterAt(text: string, call: Call, described: Described | undefined): Parameter | undefined {
  const keyword = /([a-zA-Z_]\w*)\s*=\s*['"]?$/.exec(text.slice(0, call.from))?.[1];
  return described?.params.find((param) => param.name === keyword) ?? described?.params[Math.min(call.argument, described.params.length - 1)];
}

/** The values that a parameter is known to take, its default first. */
export function valuesOf(param: Parameter | undefined): unknown[] {
  if (!param) return [];
  const known = [...(param.default === undefined || param.default === null ? [] : [param.default]), ...(param.options ?? []), ...(param.suggestions ?? []), ...(param.type === "boolean" ? [true, false] : [])];
  return [...new Set(known)];
}

/** A value as written in a target. */
export function literal(value: unknown): string {
  return typeof value === "string" ? `'${value}'` : String(value);
}

/** The text of a function with its parameters, in parts, so that the caller can mark the current parameter. */
export function signature(described: Described): { before: string; params: string[] } {
  const shown = described.params.map((param) => {
    const value = param.default === undefined ? "" : `=${JSON.stringify(param.default)}`;
    return `${param.name}${param.multiple ? "…" : ""}${value}${param.required || value !== "" ? "" : "?"}`;
  });
  return { before: `${described.name}(`, params: shown };
}

/** A target with each call that is too long for a line spread over several. */
export function format(target: string, width = 72): string {
  let place = 0;
  const text = target.trim();
  /** The text of an argument, up to the comma or closing bracket that ends it. */
  const part = (depth: number): string => {
    let out = "";
    let braces = 0;
    while (place < text.length) {
      const char = text[place] ?? "";
      if (char === "\\") {
        out += text.slice(place, place + 2);
        place += 2;
      } else if (char === "'" || char === '"') {
        const begin = place++;
        while (place < text.length && text[place] !== char) place += text[place] === "\\" ? 2 : 1;
        out += text.slice(begin, ++place);
      } else if (char === "(") {
        place++;
        out += call(depth);
      } else if ((char === "," && braces <= 0) || char === ")") return out.trim();
      else {
        if (char === "{") braces++;
        if (char === "}") braces--;
        out += /\s/.test(char) ? (out.endsWith(" ") ? "" : " ") : char;
        place++;
      }
    }
    return out.trim();
  };
  const call = (depth: number): string => {
    const parts: string[] = [];
    for (;;) {
      parts.push(part(depth + 1));
      if (text[place] === ",") place++;
      else break;
    }
    const closed = text[place] === ")" ? ")" : "";
    if (closed !== "") place++;
    const line = `(${parts.join(", ")}${closed}`;
    if (line.length + 2 * depth <= width && !line.includes("\n")) return line;
    const indent = "  ".repeat(depth + 1);
    return `(\n${indent}${parts.join(`,\n${indent}`)}\n${"  ".repeat(depth)}${closed}`;
  };
  let out = part(0);
  // Text that cannot be parsed is not changed.
  if (place < text.length) out += text.slice(place);
  return out;
}
