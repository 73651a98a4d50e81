// Asks for the admin token, which is needed on other machines than the daemon's.

import { useSignal } from "@preact/signals";

const TOKEN = "plumbago.token";

/** The token that was typed in this tab; "" if there is none. */
export function token(): string {
  try {
    return sessionStorage.getItem(TOKEN) ?? "";
  } catch {
    return "";
  }
}

export function Token({ action, done }: { action: string; done: () => void }) {
  const text = useSignal("");
  return (
    <form
      class="token"
      onSubmit={(event) => {
        event.preventDefault();
        try {
          sessionStorage.setItem(TOKEN, text.value.trim());
        } catch {
          // Without storage the token is asked for again.
        }
        done();
      }}
    >
      <label>
        Admin token <input type="password" autocomplete="off" value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} />
      </label>
      <button type="submit">{action}</button>
      <p class="note">It is kept until this tab is closed.</p>
    </form>
  );
}
