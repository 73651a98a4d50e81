// A note below a field about invisible characters in its text. The browser draws the text of a field, so the
// field itself cannot mark them.

import { unseen } from "./numbers";

const SHOWN = 5;

export function Unseen({ text }: { text: string }) {
  const found = unseen(text);
  if (found.length === 0) return null;
  const more = found.length > SHOWN ? ` and ${found.length - SHOWN} more` : "";
  return <p class="note unseen" role="status">This text has characters that cannot be seen or turn its direction: {found.slice(0, SHOWN).join(", ")}{more}.</p>;
}
