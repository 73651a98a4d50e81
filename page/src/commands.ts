// Texts of commands for the command line. No access to the browser.

/** A text as one word of a shell. */
function word(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Whether a name would match other names as a glob, or would be read as an option. */
function isOther(name: string): boolean {
  return /[*?[{\\]/.test(name) || name.startsWith("-");
}

/** The glob for everything below a directory ("" for the top), or only for the metrics directly in it. null if there is no such glob. */
export function globBelow(path: string, direct: boolean): string | null {
  if (isOther(path)) return null;
  return (path === "" ? "" : `${path}.`) + (direct ? "*" : "**");
}

/** Measures how much space the points below a directory take. */
export function measure(path: string): string | null {
  if (isOther(path)) return null;
  return `plumbago du ${word(path === "" ? "/" : path)}`;
}

/** Lists the metrics below a directory that nobody used for this many days. */
export function list(path: string, direct: boolean, days: number, unwritten: boolean, unread: boolean): string | null {
  const glob = globBelow(path, direct);
  if (glob === null) return null;
  return `plumbago list ${word(glob)}${unwritten ? ` --silent ${days}d` : ""}${unread ? ` --unread ${days}d` : ""}`;
}

/** Shows what a deletion of the listed metrics would delete. */
export function deleting(listing: string): string {
  return `${listing} | plumbago delete --names - --dry-run`;
}

/** Shows what is known about a metric. */
export function info(name: string): string {
  if (name.includes(";") || isOther(name)) return `printf '%s\\n' ${word(name)} | plumbago info --names -`;
  return `plumbago info ${word(name)}`;
}

/** Lists the series with this value of a tag. */
export function tagged(tag: string, value: string): string {
  return `plumbago list --tag=${word(`${tag}=${value}`)}`;
}
