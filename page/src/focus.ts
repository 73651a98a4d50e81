// Moves the focus when the element that has it disappears.

import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** When a dialog that has the focus closes, the element that had the focus before gets it back. */
export function useReturn(dialog: RefObject<HTMLElement | null>): void {
  const before = useRef(document.activeElement);
  useEffect(() => {
    const element = dialog.current;
    return () => {
      const opener = before.current;
      // The dialog may be gone already, and the focus with it.
      const isLost = document.activeElement === document.body || element?.contains(document.activeElement);
      if (isLost && opener instanceof HTMLElement) opener.focus();
    };
  }, []);
}

/** Focuses an element once the page has been drawn again. */
export function focusSoon(find: () => HTMLElement | null | undefined): void {
  requestAnimationFrame(() => find()?.focus());
}
