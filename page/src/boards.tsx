// Saved views, which are files in the directory api.page.boards.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useAnswer } from "./answer";
import { count, many, visible } from "./numbers";
import { openText } from "./state";

interface Listed {
  boards: Board[];
  /** Number of files that the daemon left out, because there are too many. */
  left_out: number;
}

interface Board {
  name: string;
  text?: string;
  error?: string;
}

/** How often the list is read again while it is shown, in milliseconds. */
const EVERY = 10_000;

export function Boards() {
  const asked = useSignal(0);
  useEffect(() => {
    const timer = window.setInterval(() => document.visibilityState === "visible" && asked.value++, EVERY);
    return () => window.clearInterval(timer);
  }, []);
  const { found, problem } = useAnswer<Listed>("plumbago/boards", () => [], String(asked.value));
  return (
    <div class="boards">
      {problem.value !== "" && <p class="problem" role="alert">{visible(problem.value)}</p>}
      {found.value?.boards.length === 0 && <p class="note">There are no boards. They are files in the directory <code>api.page.boards</code>, each with the text behind # in the address of a view.</p>}
      <ul>
        {(found.value?.boards ?? []).map((board) => (
          <li key={board.name}>
            {board.text === undefined ? (
              <span><bdi>{visible(board.name)}</bdi>: {visible(board.error ?? "")}</span>
            ) : (
              <button type="button" class="quiet" onClick={() => openText(linkOfBoard(board.text ?? ""))}><bdi>{visible(board.name)}</bdi></button>
            )}
          </li>
        ))}
      </ul>
      {found.value !== null && found.value.left_out > 0 && (
        <p class="problem" role="status">
          {many(found.value.left_out, "file")} after the first {count(found.value.boards.length)} (by name) {found.value.left_out === 1 ? "is" : "are"} left out. Move files that nobody needs out of the directory <code>api.page.boards</code>, or put several views into one file, each behind <code>panel=TITLE</code>.
        </p>
      )}
    </div>
  );
}

/** Parameters may be on separate lines. */
function linkOfBoard(text: string): string {
  const lines = text.split(/\r?\n/).map((line) => line.trim()).filter((line) => line !== "");
  return lines.map((line) => line.replace(/^[?#&]+/, "").replace(/&+$/, "")).join("&");
}
