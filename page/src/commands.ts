// Commands of the command line as texts. Pure.

/** A text as one word of a shell. */
function word(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Whether a name as a glob means other names, or would be read as an option. */
function isOther(name: string): boolean {
  return /[*?[{\\]/.test(name) || name.startsWith("-");
}

/** The glob of what is below a directory, "" for the top, or directly in it. null if there is none. */
export function globBelow(path: string, direct: boolean): string | null {
  if (isOther(path)) return null;
  return (path === "" ? "" : `${path}.`) + (direct ? "*" : "**");
}

/** What the points below a directory take. */
export function measure(path: string): string | null {
  if (isOther(path)) return null;
  return `plumbago du ${word(path === "" ? "/" : path)}`;
}

/** Metrics below a directory that nobody used for so many days. */
export function list(path: string, direct: boolean, days: number, unwritten: boolean, unread: boolean): string | null {
  const glob = globBelow(path, direct);
  if (glob === null) return null;
  return `plumbago list ${word(glob)}${unwritten ? ` --silent ${days}d` : ""}${unread ? ` --unread ${days}d` : ""}`;
}

/** Shows what would be deleted of a list. */
export function deleting(listing: string): string {
  return `${listing} | plumbago delete --names - --dry-run`;
}

/** What is known of a metric. */
export function info(name: string): string {
  if (name.includes(";") || isOther(name)) return `printf '%s\\n' ${word(name)} | plumbago info --names -`;
  return `plumbago info ${word(name)}`;
}

/** The series with a value of a tag. */
export function tagged(tag: string, value: string): string {
  return `plumbago list --tag=${word(`${tag}=${value}`)}`;
}
