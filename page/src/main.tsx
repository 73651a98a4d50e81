import { render } from "preact";
import { App } from "./app";
import { loadEditor } from "./editor";
import { begin } from "./state";
import { followVersion } from "./version";

begin();
const place = document.getElementById("app");
if (place) {
  place.replaceChildren();
  render(<App />, place);
  loadEditor();
  followVersion();
}
