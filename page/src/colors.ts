// Colours of series. No access to the browser.

/** Colours that differ clearly on a dark and a light background, for most people with colour blindness too. */
const DARK = ["#4cc2ff", "#ffb454", "#7ad97a", "#ff7a85", "#c39bff", "#f2e05c", "#4fd8c4", "#ff9ad5", "#a8b8c8", "#d6925e", "#8fa8ff", "#b7d34f"];
const LIGHT = ["#0b6fb8", "#b85c00", "#23803a", "#c4283c", "#7a45c9", "#857000", "#007d70", "#b83285", "#55656f", "#8a4f22", "#3c55c8", "#5b7300"];

/** Names that Graphite's color() takes. */
const NAMED: Record<string, string> = {
  black: "#000000", white: "#ffffff", blue: "#6464ff", green: "#00c800", red: "#ff0000", yellow: "#ffff00", orange: "#ffa500",
  purple: "#c864ff", brown: "#966432", aqua: "#009696", gray: "#afafaf", grey: "#afafaf", magenta: "#ff00ff", pink: "#ff6464",
  gold: "#c8c800", rose: "#c896c8", darkblue: "#0000ff", darkgreen: "#00ff00", darkred: "#c80000", darkgray: "#6f6f6f", darkgrey: "#6f6f6f", cyan: "#00ffff",
};

export function colorOf(asked: string | undefined, place: number, dark: boolean): string {
  if (asked !== undefined) {
    const named = NAMED[asked.toLowerCase()];
    if (named) return named;
    const digits = asked.replace(/^#/, "");
    if (/^([0-9a-f]{3}|[0-9a-f]{6}|[0-9a-f]{8})$/i.test(digits)) return `#${digits}`;
  }
  const palette = dark ? DARK : LIGHT;
  return palette[place % palette.length] ?? "#888888";
}

export function faded(color: string, alpha: number): string {
  const digits = color.slice(1);
  const full = digits.length === 3 ? [...digits].map((digit) => digit + digit).join("") : digits.slice(0, 6);
  const byte = Math.round(Math.max(0, Math.min(1, alpha)) * 255);
  return `#${full}${byte.toString(16).padStart(2, "0")}`;
}
