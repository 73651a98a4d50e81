// Views that are kept as files in the directory api.page.boards.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, Refusal } from "./api";
import { parseView } from "./link";
import { visible } from "./numbers";
import { change } from "./state";

interface Board {
  name: string;
  text?: string;
  error?: string;
}

export function Boards() {
  const boards = useSignal<Board[] | null>(null);
  const problem = useSignal("");
  useEffect(() => {
    const controller = new AbortController();
    get<Board[]>("plumbago/boards", [], controller.signal).then(
      (found) => (boards.value = found),
      (error: unknown) => {
        if (!controller.signal.aborted) problem.value = error instanceof Refusal ? error.message : String(error);
      },
    );
    return () => controller.abort();
  }, []);
  return (
    <div class="boards">
      {problem.value !== "" && <p class="problem" role="alert">{visible(problem.value)}</p>}
      {boards.value?.length === 0 && <p class="note">There are no boards. They are files in the directory <code>api.page.boards</code>, each with the text behind # in the address of a view.</p>}
      <ul>
        {(boards.value ?? []).map((board) => (
          <li key={board.name}>
            {board.text === undefined ? (
              <span><bdi>{visible(board.name)}</bdi>: {visible(board.error ?? "")}</span>
            ) : (
              <button type="button" class="quiet" onClick={() => change(viewOfBoard(board.text ?? ""))}><bdi>{visible(board.name)}</bdi></button>
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Parameters may stand on lines of their own. */
function viewOfBoard(text: string) {
  const lines = text.split(/\r?\n/).map((line) => line.trim()).filter((line) => line !== "");
  return parseView(lines.map((line) => line.replace(/^[?#&]+/, "").replace(/&+$/, "")).join("&"));
}
