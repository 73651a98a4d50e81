// Shows a command to copy. The page itself changes nothing on the daemon.

import { useSignal } from "@preact/signals";
import { visible } from "./numbers";
import { spoken } from "./state";

/** A command with what it does. */
export function Command({ text, what }: { text: string; what: string }) {
  return (
    <p class="command">
      {what} <code>{visible(text)}</code> <CopyCommand text={text} />
    </p>
  );
}

/** A button that shows a command and copies it. */
export function CopyCommand({ text }: { text: string }) {
  const said = useSignal("");
  return (
    <button
      type="button"
      aria-label={`Copy the command ${visible(text)}`}
      onClick={async () => {
        try {
          await navigator.clipboard.writeText(text);
          said.value = "Copied";
        } catch {
          said.value = "Mark and copy it";
        }
        spoken.value = said.value;
        window.setTimeout(() => (said.value = ""), 2000);
      }}
    >
      {said.value || "Copy"}
    </button>
  );
}
