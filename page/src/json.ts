// Parts of JSON whose form is not known. No access to the browser.

export type Fields = Record<string, unknown>;

/** The fields of an object; null for other values. */
export function fields(value: unknown): Fields | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : null;
}

export function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** A text or number as text, "" for other values. */
export function string(value: unknown): string {
  return typeof value === "string" ? value : typeof value === "number" ? String(value) : "";
}
