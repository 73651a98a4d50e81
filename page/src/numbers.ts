// Numbers, durations and times in a readable form. No access to the browser.

const SI = ["", "k", "M", "G", "T", "P", "E"];
const SMALL = ["", "m", "µ", "n", "p"];
const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/** A number in a short form: at most four digits and a prefix like k. `system` is yUnitSystem of /render; "none" means no prefix. */
export function short(value: number | null | undefined, system = "si"): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (system === "sec" || system === "msec") return duration(system === "sec" ? value : value / 1000);
  // Without a prefix, large numbers are shown with all digits of their whole part.
  if (system === "none" || value === 0) return Math.abs(value) >= 1e5 && Math.abs(value) < 1e15 ? trimmed(Math.round(value), 15) : trimmed(value, 6);
  const size = Math.abs(value);
  const base = system === "binary" ? 1024 : 1000;
  const names = system === "binary" ? BINARY : SI;
  if (size < 1) {
    if (system === "binary" || size >= 0.001) return trimmed(value, 4);
    const power = Math.ceil(-Math.log10(size) / 3);
    if (power >= SMALL.length) return trimmed(value, 4);
    return trimmed(value * 1000 ** power, 4) + SMALL[power];
  }
  const power = Math.floor(Math.log(size) / Math.log(base) + 1e-9);
  if (power >= names.length) return trimmed(value, 4);
  return trimmed(value / base ** power, 4) + names[power];
}

function trimmed(value: number, digits: number): string {
  const text = value.toPrecision(digits);
  return String(Number(text)).replace("-", "−");
}

/** The text of a duration that is given in seconds, like 90 min. */
export function duration(seconds: number): string {
  const sign = seconds < 0 ? "−" : "";
  const size = Math.abs(seconds);
  const units: [number, string][] = [[31_536_000, "y"], [86_400, "d"], [3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"]];
  const unit = units.find(([length]) => size >= length) ?? [1, "s"];
  return `${sign}${trimmed(size / unit[0], 3)} ${unit[1]}`;
}

/** A retention with its seconds in larger units, like 1min:7d,1h:2y. */
export function retention(text: string): string {
  return text.replace(/(\d+)s/g, (_, seconds: string) => duration(Number(seconds)).replace(" ", ""));
}

export function count(value: number): string {
  return value.toLocaleString("en-GB");
}

/** A number of things: 1 panel, 2 panels. */
export function many(value: number, thing: string): string {
  return `${count(value)} ${thing}${value === 1 ? "" : "s"}`;
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** A moment, in seconds since the epoch, in a time zone ("" for the browser's). */
export function moment(seconds: number, zone: string): string {
  let format = formats.get(zone);
  if (!format) {
    const options: Intl.DateTimeFormatOptions = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
    try {
      format = new Intl.DateTimeFormat("sv-SE", zone === "" ? options : { ...options, timeZone: zone });
    } catch {
      format = new Intl.DateTimeFormat("sv-SE", options);
    }
    formats.set(zone, format);
  }
  return format.format(new Date(seconds * 1000));
}

const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}\p{Cs}]/gu;

function escaped(char: string): string {
  const digits = (char.codePointAt(0) ?? 0).toString(16);
  return digits.length > 4 ? `\\u{${digits}}` : `\\u${digits.padStart(4, "0")}`;
}

/** A text in which characters that are invisible or change the writing direction are shown as escapes. */
export function visible(text: string): string {
  return text.replace(UNSEEN, escaped);
}

/** The characters of a text that are invisible or change the writing direction, each once. Blanks and line ends are left out. */
export function unseen(text: string): string[] {
  const found = new Set<string>();
  for (const [char] of text.matchAll(UNSEEN)) if (!"\t\r\n".includes(char)) found.add(escaped(char));
  return [...found];
}
