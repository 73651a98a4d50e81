// Names and tags as targets of /render. Pure.

/** A name as a target that means only this name: characters with a meaning in globs or targets are escaped. */
export function escaped(name: string): string {
  return name.replace(/[*?[{}\\]/g, "\\$&").replace(/[(){},'"\\|=]/g, "\\$&");
}

/** A part of a target without the escapes of the grammar of targets. Those of globs stay. */
export function globOf(text: string): string {
  return text.replace(/\\([(){},.'"\\|=])/g, "$1");
}

/** The name that a glob means; null if it has wildcards. */
export function nameOfGlob(glob: string): string | null {
  if (/[*?[{]/.test(glob.replace(/\\./g, ""))) return null;
  return glob.replace(/\\([!-/:-@[-`{-~])/g, "$1");
}

/** The target that plots a metric, a series with tags, or the metrics directly in a directory. */
export function targetOf(path: string, leaf: boolean): string {
  if (!leaf) return `${escaped(path)}.*`;
  const semicolon = path.indexOf(";");
  if (semicolon < 0) return escaped(path);
  const tags = [`name=${path.slice(0, semicolon)}`, ...path.slice(semicolon + 1).split(";")];
  return `seriesByTag(${tags.map(quoted).join(", ")})`;
}

/** The regular expression for texts that contain this one, in upper or lower case; "" for all. */
export function holding(text: string): string {
  return text === "" ? "" : `(?is).*${text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}`;
}

/** A tag expression `tag=value` in quotes. Strings of targets have no escapes, so a value that fits into no quotes becomes a regular expression. */
export function quoted(text: string): string {
  if (!text.endsWith("\\")) {
    if (!text.includes("'")) return `'${text}'`;
    if (!text.includes('"')) return `"${text}"`;
  }
  const at = text.indexOf("=") + 1;
  const value = text.slice(at).replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll("'", "\\x27");
  return `'${text.slice(0, at)}~^${value}$'`;
}
