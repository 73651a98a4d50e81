// Tests of the parts that know no browser. Node runs them on the bundle that esbuild makes of the sources.

import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const { outputFiles } = await build({
  stdin: { contents: 'export * from "./src/commands"; export * from "./src/link"; export * from "./src/keys"; export * from "./src/targets"; export * from "./src/imports"; export * from "./src/numbers"; export * from "./src/shape"; export * from "./src/colors"; export * from "./src/functions";', resolveDir: new URL("..", import.meta.url).pathname, loader: "ts" },
  bundle: true, format: "esm", write: false, platform: "neutral",
});
const page = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

/** Numbers by chance, the same in every run. */
function chance(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const ODD = ["", "a.b", "sumSeries(a.*, b)", "&panel=x", "100%", "%zz", "+", " ", "=", "#", "<script>alert(1)</script>", "\u202eabc", "ünï", "🦀", "\ud800", "a\nb", "'\"\\"];

test("a view comes back from its link", () => {
  const next = chance(1);
  const text = () => (next(3) > 0 ? ODD[next(ODD.length)] : Array.from({ length: next(12) }, () => String.fromCharCode(next(700))).join("")).toWellFormed();
  for (let round = 0; round < 3000; round++) {
    const panels = Array.from({ length: next(4) }, () => ({
      title: text(),
      targets: Array.from({ length: next(4) }, text),
      options: Array.from({ length: next(3) }, () => [["areaMode", "yMax", "template[x]", "odd&name", "hide", "only", "table"][next(7)], text()]),
    }));
    const view = { from: text() || "-1h", until: text() || "now", tz: text(), ...(next(2) === 0 ? { live: false } : {}), panels };
    assert.deepEqual(page.parseView(page.formatView(view)), view);
  }
});

test("any text is read without an error", () => {
  const next = chance(2);
  const parts = ["target=", "&", "panel=", "%", "%4", "%zz", "=", "?", "#", "from=", "é", "\u0000", "from=-2h&", "live=0&", "live=", "hide=a&", "only="];
  for (let round = 0; round < 3000; round++) {
    const text = Array.from({ length: next(20) }, () => parts[next(parts.length)]).join("");
    const view = page.parseView(text);
    assert.deepEqual(page.parseView(page.formatView(view)), { ...view, panels: view.panels });
  }
});

test("the link of a picture of /render is read", () => {
  const view = page.parseView("?width=800&height=400&from=-6h&target=alias(a.b%2C'x')&target=c&title=CPU&areaMode=stacked&format=png");
  assert.deepEqual(view, { from: "-6h", until: "now", tz: "", panels: [{ title: "CPU", targets: ["alias(a.b,'x')", "c"], options: [["areaMode", "stacked"]] }] });
  assert.equal(page.formatView(view), "from=-6h&title=CPU&target=alias(a.b,'x')&target=c&areaMode=stacked");
});

test("what is hidden, the table and Live are in the link", () => {
  const view = page.parseView("from=-1h&live=0&target=a&hide=a&panel=B&target=b.*&only=b.2&table=1");
  assert.equal(view.live, false);
  assert.deepEqual(view.panels.map((panel) => panel.options), [[["hide", "a"]], [["only", "b.2"], ["table", "1"]]]);
  assert.equal(page.formatView(view), "from=-1h&live=0&target=a&hide=a&panel=B&target=b.*&only=b.2&table=1");
  assert.deepEqual([...page.hiddenOf(view.panels[0], ["a", "b"])], ["a"]);
  assert.deepEqual([...page.hiddenOf(view.panels[1], ["b.1", "b.2", "b.3"])], ["b.1", "b.3"]);
  assert.deepEqual([...page.hiddenOf(view.panels[1], ["c"])], []);
  assert.deepEqual(page.bare(view.panels[1]).options, []);
  assert.equal(page.formatView(page.withLive(view, true)).includes("live"), false);
});

test("a click in the legend hides, and leaves what else is hidden", () => {
  const next = chance(7);
  for (let round = 0; round < 500; round++) {
    const names = Array.from({ length: 1 + next(5) }, (_, place) => `s${place}`);
    let panel = { title: "", targets: ["s*"], options: [["areaMode", "all"]] };
    let hidden = new Set();
    for (let click = 0; click < 12; click++) {
      const name = names[next(names.length)];
      if (next(3) === 0) {
        const isAlone = !hidden.has(name) && hidden.size === names.length - 1;
        hidden = new Set(isAlone ? [] : names.filter((other) => other !== name));
        panel = page.withToggled(panel, names, name, true);
      } else {
        if (!hidden.delete(name)) hidden.add(name);
        panel = page.withToggled(panel, names, name, false);
      }
      assert.deepEqual([...page.hiddenOf(panel, names)].sort(), [...hidden].sort(), `${JSON.stringify(panel.options)}`);
      assert.deepEqual(panel.options[0], ["areaMode", "all"]);
      const view = { from: "-1h", until: "now", tz: "", panels: [panel] };
      assert.deepEqual(page.parseView(page.formatView(view)), view);
    }
  }
});

test("numbers are short", () => {
  const shown = (value, system) => page.short(value, system);
  assert.deepEqual([0, 1, 999.96, 1500, 1e6, -2.5e9, 0.25, 0.0000123, null].map((value) => shown(value)), ["0", "1", "1000", "1.5k", "1M", "−2.5G", "0.25", "12.3µ", "–"]);
  assert.equal(shown(1536, "binary"), "1.5Ki");
  assert.equal(shown(90, "sec"), "1.5 min");
  // Whole numbers are not rounded, and what has no prefix has an exponent.
  assert.deepEqual([1234567.891, 12345.678, 0.000123456].map((value) => shown(value, "none")), ["1234568", "12345.7", "0.000123456"]);
  assert.deepEqual([1.2346e31, -1e21, 1e-16].map((value) => shown(value)), ["1.235e+31", "−1e+21", "1e−16"]);
  assert.equal(shown(1e30, "binary"), "1e+30");
  assert.equal(page.retention("60s:604800s,3600s:63072000s"), "1min:7d,1h:2y");
});

test("what cannot be seen is shown", () => {
  assert.equal(page.visible("a\u202eb\u200b\n"), "a\\u202eb\\u200b\\u000a");
});

test("series of different steps share the moments", () => {
  const answer = { from: 0, until: 120, now: 120, total: 2, axes: [{ start: 0, step: 60, count: 3 }, { start: 0, step: 120, count: 2 }], series: [{ name: "a", axis: 0, step: 60, values: [1, null, 3] }, { name: "b", axis: 1, step: 120, values: [10, 20] }] };
  const shaped = page.shape(answer, () => true);
  assert.deepEqual(shaped.times, [0, 60, 120]);
  assert.deepEqual(shaped.own, [[1, null, 3], [10, undefined, 20]]);
  assert.deepEqual(shaped.drawn, [[1, null, 3], [11, undefined, 23]]);
  assert.deepEqual(shaped.below, [-1, 0]);
  assert.deepEqual(page.summary([1, null, 3]), { last: 3, min: 1, max: 3, mean: 2 });
});

test("colours are Graphite's names, hexadecimal digits, or a palette's", () => {
  assert.equal(page.colorOf("red", 0, true), "#ff0000");
  assert.equal(page.colorOf("#0f0", 0, true), "#0f0");
  assert.equal(page.colorOf("expression(alert(1))", 0, true), page.colorOf(undefined, 0, true));
  assert.equal(page.faded("#0f0", 0.5), "#00ff0080");
});

test("the place in a target is understood", () => {
  const at = (text) => page.callAt(text.replace("|", ""), text.indexOf("|"));
  assert.deepEqual(at("sumSeries(web.{a,b}.c, mov|"), { name: "sumSeries", argument: 1, from: 23, word: "mov", quote: "" });
  assert.deepEqual(at("seriesByTag('dc=eu', 'host=w|')"), { name: "seriesByTag", argument: 1, from: 22, word: "host=w", quote: "'" });
  assert.equal(at("a(b(c), |").argument, 1);
});

test("a formatted target says the same", () => {
  const target = "alias(sumSeries(movingAverage(servers.{web01,web02}.cpu.user,10), scale( servers.*.cpu.system ,0.25)),'a, (b)')";
  const formatted = page.format(target, 40);
  assert.equal(formatted, "alias(\n  sumSeries(\n    movingAverage(servers.{web01,web02}.cpu.user, 10),\n    scale(servers.*.cpu.system, 0.25)\n  ),\n  'a, (b)'\n)");
  const next = chance(3);
  for (let round = 0; round < 2000; round++) {
    const text = Array.from({ length: next(14) }, () => ["a.b", "f(", ")", ",", "'x, (y'", " ", "{a,b}", "\"", "'", "\\", "ü"][next(11)]).join("");
    const bare = (some) => some.replace(/\s/g, "");
    assert.equal(bare(page.format(text, next(30))), bare(text));
  }
});

test("the address of a graph is understood, and nothing else", () => {
  assert.deepEqual(page.viewOfAddress("https://graphite.example.org/render?target=a.b&from=-2h&width=500")?.panels[0]?.targets, ["a.b"]);
  assert.equal(page.viewOfAddress("/render/?target=a&target=b")?.panels[0]?.targets.length, 2);
  assert.match(page.readImport("/render?target=a&title=%zz&areaMode=x").leftOut.join(), /title=%zz.*areaMode=x/);
  for (const text of ["web cpu", "dc=eu", "target=x", "https://grafana.example.org/d/abc?orgId=1", "a?target="]) assert.equal(page.viewOfAddress(text), null, text);
});

test("a dashboard of Grafana is read, with rows, variables and what is left out", () => {
  const dashboard = {
    dashboard: {
      title: "Hosts",
      time: { from: "now-6h", to: "now" },
      timezone: "utc",
      templating: { list: [{ name: "host", current: { value: ["web01", "web02"] } }, { name: "dc", current: { value: ["$__all"] } }] },
      panels: [
        { title: "CPU of $host", type: "timeseries", targets: [{ refId: "A", target: "servers.$host.cpu", hide: true }, { refId: "B", target: "sumSeries(#A)" }], fieldConfig: { defaults: { unit: "bytes", min: 0, custom: { stacking: { mode: "normal" } } } } },
        { title: "Row", type: "row", panels: [{ title: "Load", targets: [{ refId: "A", target: "a.#Z", targetFull: "a.[[dc]].b" }], nullPointMode: "connected" }] },
        { title: "SQL", targets: [{ refId: "A", datasource: { type: "mysql" }, rawSql: "SELECT 1" }] },
      ],
    },
  };
  const imported = page.readImport(JSON.stringify(dashboard));
  assert.deepEqual(imported.variables, [["host", "{web01,web02}"], ["dc", "*"]]);
  assert.deepEqual(imported.leftOut, ["SQL, query A: no query of Graphite (mysql)"]);
  const view = page.filled(imported, imported.variables);
  assert.deepEqual(view, {
    from: "-6h", until: "now", tz: "UTC",
    panels: [
      { title: "CPU of {web01,web02}", targets: ["sumSeries(servers.{web01,web02}.cpu)"], options: [["areaMode", "stacked"], ["yUnitSystem", "binary"], ["yMin", "0"]] },
      { title: "Load", targets: ["a.*.b"], options: [["lineMode", "connected"]] },
    ],
  });
  const rows = page.readImport(JSON.stringify({ rows: [{ panels: [{ title: "old", stack: true, targets: [{ target: "a" }] }] }], time: { from: "2026-01-01T00:00:00Z", to: "1767229200000" } }));
  assert.deepEqual([rows.view.from, rows.view.until, rows.view.panels[0].options], ["1767225600", "1767229200", [["areaMode", "stacked"]]]);
});

test("links of Explore and a panel's JSON are read", () => {
  const link = (state, name) => `https://grafana.example/explore?schemaVersion=1&${name}=${encodeURIComponent(JSON.stringify(state))}&orgId=1`;
  const panes = page.readImport(link({ x: { datasource: "g", queries: [{ refId: "A", target: "a.b" }], range: { from: "now-15m", to: "now" } } }, "panes"));
  assert.deepEqual([panes.view.from, panes.view.panels], ["-15min", [{ title: "", targets: ["a.b"], options: [] }]]);
  const left = page.readImport(link(["now-1h", "now", "Graphite", { target: "a.c" }], "left"));
  assert.deepEqual([left.view.from, left.view.panels[0].targets], ["-1h", ["a.c"]]);
  const panel = { title: "T", targets: ["a", "b"], options: [["areaMode", "stacked"], ["lineMode", "staircase"], ["yUnitSystem", "binary"], ["yMax", "9"]] };
  const back = page.readImport(page.grafanaPanel(panel)).view.panels[0];
  assert.deepEqual([back.title, back.targets, new Map(back.options)], [panel.title, panel.targets, new Map(panel.options)]);
});

test("a dashboard of graphite-web is read", () => {
  const state = { name: "n", timeConfig: { type: "relative", relativeStartUnits: "hours", relativeStartQuantity: "2", relativeUntilUnits: "now", relativeUntilQuantity: "" }, graphs: [["target=a", { target: ["a", "b"], title: "T", areaMode: "stacked", width: 400 }, "/render?…"], ["", { target: [] }, ""]] };
  const imported = page.readImport(JSON.stringify({ state }));
  assert.deepEqual(imported.view, { from: "-2hours", until: "now", tz: "", panels: [{ title: "T", targets: ["a", "b"], options: [["areaMode", "stacked"]] }] });
  assert.deepEqual(imported.leftOut, ["graph 2: it has no target"]);
  state.timeConfig = { type: "absolute", startDate: "2026-11-24T00:00:00", startTime: "9:05 AM", endDate: "2026-11-25T00:00:00", endTime: "12:00 AM" };
  const absolute = page.readImport(JSON.stringify(state)).view;
  assert.deepEqual([absolute.from, absolute.until], ["09:05_20261124", "00:00_20261125"]);
});

test("what cannot be read says what to do", () => {
  const says = (text, what) => assert.throws(() => page.readImport(text), (error) => error instanceof page.Unreadable && error.message.includes(what), text);
  says("", "nothing");
  says("https://grafana.example/d/abc/hosts?orgId=1", "JSON model");
  for (const path of ["dashboard/snapshot/KEY", "dashboards", "goto/abc?orgId=1", "d-solo/abc/x?panelId=2"]) says(`https://grafana.example/${path}`, "JSON model");
  says("https://graphite.example/dashboard/load/web", "/dashboard/load/web");
  says("https://example.org/", "no target");
  says("hello", "neither");
  says('{"panels": [', "no JSON");
  says("[]", "an object is expected");
  says("{}", "none of graphs");
  says('{"panels":[{"title":"x","targets":[{"refId":"A","expr":"up"}]}]}', "x, query A");
  says("https://grafana.example/explore?orgId=1", "neither panes nor left");
  says("https://grafana.example/explore?panes=%7B%22a", "no JSON");
  says("https://grafana.example/explore?left=%zz", "cannot be decoded");
  const next = chance(5);
  const parts = ['{"panels":', '"targets":', "[", "]", "{", "}", ",", "null", '"a"', '{"graphs":[[', "1", '{"state":', '"rows":', "https://x/explore?panes=", "%7B"];
  for (let round = 0; round < 20000; round++) {
    const text = Array.from({ length: next(9) }, () => parts[next(parts.length)]).join("");
    try {
      page.readImport(text);
    } catch (error) {
      assert.ok(error instanceof page.Unreadable, `${text}: ${error}`);
    }
  }
});

test("commands name what they are about and nothing else", () => {
  assert.equal(page.globBelow("a.b", false), "a.b.**");
  assert.equal(page.globBelow("a.b", true), "a.b.*");
  assert.deepEqual([page.globBelow("", false), page.globBelow("", true)], ["**", "*"]);
  assert.equal(page.measure(""), "plumbago du '/'");
  assert.equal(page.measure("it's"), "plumbago du 'it'\\''s'");
  assert.equal(page.list("a", false, 90, true, true), "plumbago list 'a.**' --silent 90d --unread 90d");
  assert.equal(page.deleting(page.list("a", true, 30, false, true)), "plumbago list 'a.*' --unread 30d | plumbago delete --names - --dry-run");
  for (const other of ["a[1]", "a*", "a{b", "a?", "a\\b", "-a"]) {
    assert.deepEqual([page.globBelow(other, false), page.measure(other), page.list(other, false, 1, true, false)], [null, null, null]);
  }
  assert.equal(page.info("a.b"), "plumbago info 'a.b'");
  assert.equal(page.info("a;b='c"), "printf '%s\\n' 'a;b='\\''c' | plumbago info --names -");
  assert.equal(page.tagged("host", "$(reboot)"), "plumbago list --tag='host=$(reboot)'");
});

test("a link without a beginning means what it means for /render, and an empty page the last hour", () => {
  assert.equal(page.parseView("target=a").from, "-24h");
  assert.equal(page.parseView("").from, "-1h");
  assert.equal(page.formatView({ ...page.parseView("target=a"), from: "-1h" }), "from=-1h&target=a");
  assert.equal(page.viewOfAddress("https://graphite.example/render?target=sumSeries(a.*, b)&width=3")?.panels[0]?.targets[0], "sumSeries(a.*, b)");
});

test("parts of a link that cannot be read are named", () => {
  assert.deepEqual(page.unreadable("#from=-2h&target=a%20b&panel=x&panel&rawData"), []);
  const found = page.unreadable("#garbage&target=%zz&title=50%&from=%E0%A4");
  assert.equal(found.length, 4);
  assert.match(found[0], /garbage.* is no parameter/);
  assert.match(found[1], /target=%zz.* encodes no character/);
  assert.equal(page.unreadable("%&".repeat(100)).length, 6);
  // Values that have no effect are parts that cannot be read.
  assert.deepEqual(page.unreadable("tz=Europe/Berlin&yMin=-1.5e3&yMax=&areaMode=stacked&lineMode=slope&yUnitSystem=si&live=0&table=1&yMinLeft=x"), []);
  for (const part of ["tz=Mars/Base", "yMin=low", "yMax=1k", "areaMode=filled", "lineMode=wavy", "yUnitSystem=metric", "live=yes", "table=2"]) assert.match(page.unreadable(`from=-2h&${part}`).join(), new RegExp(`^“${part}” is no`), part);
});

test("values of arguments are known, by keyword too", () => {
  const described = { name: "summarize", function: "", description: "", params: [{ name: "seriesList", type: "seriesList" }, { name: "interval", type: "interval", suggestions: ["10min"] }, { name: "func", type: "aggFunc", default: "sum", options: ["avg", "sum"] }, { name: "alignToFrom", type: "boolean", default: false }] };
  const values = (text) => page.valuesOf(page.parameterAt(text, page.callAt(text, text.length), described)).map(page.literal);
  assert.deepEqual(values("summarize(a.b,"), ["'10min'"]);
  assert.deepEqual(values("summarize(a.b,'1h','"), ["'sum'", "'avg'"]);
  assert.deepEqual(values("summarize(a.b,func='"), ["'sum'", "'avg'"]);
  assert.deepEqual(values("summarize(a.b, alignToFrom="), ["false", "true"]);
  assert.deepEqual(values("summarize("), []);
});

test("what is invisible is shown, whatever plane it is from", () => {
  assert.equal(page.visible("a\u061cb\u3164\u{e0041}\ufe0f\ud800"), "a\\u061cb\\u3164\\u{e0041}\\ufe0f\\ud800");
  assert.equal(page.visible("ünï 🦀 \u05d0"), "ünï 🦀 \u05d0");
});

test("what a field cannot show is named", () => {
  assert.deepEqual(page.unseen("a\u202eb\u200b\u202e\n\tc\u{e0041}"), ["\\u202e", "\\u200b", "\\u{e0041}"]);
  assert.deepEqual(page.unseen("ünï 🦀 \u05d0"), []);
});

test("queries of other sources, library panels and references forward", () => {
  const read = (json) => page.readImport(JSON.stringify(json));
  const imported = read({ apiVersion: "dashboard.grafana.app/v1beta1", spec: { panels: [
    { title: "Mixed", datasource: { type: "datasource", uid: "-- Mixed --" }, targets: [{ refId: "A", target: "sumSeries(#B)", datasource: { type: "graphite" } }, { refId: "B", target: "a.*", hide: true, datasource: { type: "graphite" } }, { refId: "C", target: "x", datasource: { type: "influxdb" } }] },
    { title: "Lib", libraryPanel: { name: "Shared", uid: "u" } },
    { title: "Prom", datasource: { type: "prometheus" }, targets: [{ refId: "A", expr: "up" }] },
  ] } });
  assert.deepEqual(imported.view.panels.map((panel) => panel.targets), [["sumSeries(a.*)"]]);
  assert.equal(imported.leftOut.length, 3);
  assert.match(imported.leftOut[0], /Mixed, query C: no query of Graphite \(influxdb\)/);
  assert.match(imported.leftOut[1], /library panel Shared/);
  assert.match(imported.leftOut[2], /prometheus/);
  // References in a circle and ones that multiply end.
  const many = Array.from({ length: 20 }, (_, place) => ({ refId: String.fromCharCode(65 + place), target: `group(${"#A,#B,#C,".repeat(30)}x)` }));
  assert.ok(read({ panels: [{ title: "x", targets: many }] }).view.panels[0].targets[0].length < 300_000);
});

test("a stack has gaps where none of its series has a value", () => {
  const series = (values) => ({ name: "a", axis: 0, step: 60, consolidation: "average", values });
  const answer = { from: 0, until: 240, now: 0, total: 2, axes: [{ start: 0, step: 60, count: 4 }], series: [series([1, null, null, 4]), series([1, 2, null, null])] };
  assert.deepEqual(page.shape(answer, () => true).drawn, [[1, 0, null, 4], [2, 2, null, 4]]);
});

test("a name with characters of the grammars becomes a target that means only it", () => {
  const target = (path) => page.targetOf(path, true);
  assert.equal(target("servers.web-01:80/x.cpu_%"), "servers.web-01:80/x.cpu_%");
  assert.equal(target("a.o'brien.f(x)=1|2"), "a.o\\'brien.f\\(x\\)\\=1\\|2");
  assert.equal(target("a.{b}.c*"), "a.\\\\\\{b\\\\\\}.c\\\\*");
  assert.equal(page.targetOf("a(1)", false), "a\\(1\\).*");
  // The editor's completion reads them back.
  const next = chance(7);
  for (let round = 0; round < 2000; round++) {
    const name = Array.from({ length: 1 + next(8) }, () => "a.b(){}[]*?,'\"\\|=;x-é"[next(22)]).join("");
    assert.equal(page.nameOfGlob(page.globOf(page.escaped(name))), name, name);
    // What is escaped is no end of a call, and no quote.
    const call = page.callAt(`f(${page.escaped(name)}`, 2 + page.escaped(name).length);
    assert.deepEqual([call.name, call.quote], ["f", ""], name);
  }
  assert.equal(page.nameOfGlob("a.*"), null);
});

test("tags with any quotes become a seriesByTag", () => {
  assert.equal(page.targetOf("cpu;host=a", true), "seriesByTag('name=cpu', 'host=a')");
  assert.equal(page.quoted("k=o'brien"), '"k=o\'brien"');
  assert.equal(page.quoted("k=a'b\"c."), "'k=~^a\\x27b\"c\\.$'");
  assert.equal(page.quoted("k=a\\"), "'k=~^a\\\\$'");
});

test("items keep their number when others are removed", () => {
  const keys = new page.Keys();
  const [first, second, third] = [keys.at(0), keys.at(1), keys.at(2)];
  keys.remove(1);
  assert.deepEqual([keys.at(0), keys.at(1)], [first, third]);
  assert.ok(![first, second, third].includes(keys.at(2)));
});

test("times of Grafana that are rounded or in the future", () => {
  const times = (from, to) => {
    const { view } = page.readImport(JSON.stringify({ time: { from, to }, panels: [{ targets: [{ target: "a" }] }] }));
    return [view.from, view.until];
  };
  assert.deepEqual(times("now/d", "now/d"), ["midnight", "now"]);
  assert.deepEqual(times("now-1d/d", "now-1d/d"), ["midnight-1d", "midnight"]);
  assert.deepEqual(times("now/w", "now"), ["-1w", "now"]);
  assert.deepEqual(times("now-7d/d", "now"), ["midnight-7d", "now"]);
  assert.deepEqual(times("now-6h", "now+1h"), ["-6h", "now+1h"]);
  assert.deepEqual(times("now-2Q", "now"), ["-6mon", "now"]);
});

test("variables without a chosen value, and Grafana's intervals", () => {
  const filled = (variable, target) => {
    const imported = page.readImport(JSON.stringify({ templating: { list: [{ name: "v", ...variable }] }, panels: [{ targets: [{ target }] }] }));
    return page.filled(imported, imported.variables).panels[0].targets[0];
  };
  assert.equal(filled({ type: "query", query: "servers.*", current: {} }, "servers.$v.cpu"), "servers.*.cpu");
  assert.equal(filled({ type: "query", query: { query: "servers.*" }, current: { value: [] } }, "servers.$v.cpu"), "servers.*.cpu");
  assert.equal(filled({ type: "custom", query: "Web : web01, DB : db01" }, "servers.$v.cpu"), "servers.web01.cpu");
  assert.equal(filled({ type: "constant", query: "eu" }, "$v.x"), "eu.x");
  assert.equal(filled({ type: "interval", query: "10m,1h" }, "summarize(a,'$v')"), "summarize(a,'10min')");
  assert.equal(filled({ type: "interval", current: { value: "$__auto_interval_v" } }, "summarize(a,'$v')"), "summarize(a,'1min')");
  assert.equal(filled({}, "summarize(a,'5m')"), "summarize(a,'5min')");
});

test("the address of a dashboard of graphite-web says what to open", () => {
  for (const path of ["/#cpu", "#cpu", "/cpu", "/load/cpu"]) assert.throws(() => page.readImport(`http://gw/dashboard${path}`), /open \/dashboard\/load\/cpu of/);
});

test("library panels of an export, and panels in panels without end", () => {
  const library = { title: "Shared", targets: [{ target: "a" }] };
  const { view } = page.readImport(JSON.stringify({ __elements: { u: { model: library } }, panels: [{ libraryPanel: { uid: "u", name: "Shared" } }] }));
  assert.deepEqual(view.panels.map((panel) => [panel.title, panel.targets]), [["Shared", ["a"]]]);
  for (const alone of [{ result: { model: library } }, { kind: 1, model: library }]) assert.deepEqual(page.readImport(JSON.stringify(alone)).view.panels[0].targets, ["a"]);
  const deep = `${'{"panels":['.repeat(20_000)}{"targets":[{"target":"a"}]}${"]}".repeat(20_000)}`;
  assert.throws(() => page.readImport(deep), page.Unreadable);
});

test("what Grafana does with a panel and the page does not is said", () => {
  const panels = [
    { title: "CPU", repeat: "host", timeFrom: "24h", timeShift: "1d", targets: [{ target: "a.$host" }] },
    { title: "CPU", repeatPanelId: 1, scopedVars: { host: { value: "b" } }, targets: [{ target: "a.$host" }] },
    { title: "Row", type: "row", repeat: "dc", panels: [] },
  ];
  const { view, leftOut } = page.readImport(JSON.stringify({ panels }));
  assert.equal(view.panels.length, 1, "copies of a repeated panel are not read");
  assert.deepEqual(leftOut.map((one) => one.split(";")[0]), ["CPU: Grafana repeats it for each value of host", "CPU: its own time range, 24h", "CPU: its time shift, 1d", "Row: Grafana repeats it for each value of dc"]);
});

test("a variable with several values has the format that the target asks for", () => {
  const filled = (value, target) => page.filled(page.readImport(JSON.stringify({ panels: [{ targets: [{ target }] }] })), [["v", value]]).panels[0].targets[0];
  assert.equal(filled("{a.b,c}", "x.$v.y"), "x.{a.b,c}.y");
  assert.equal(filled("{a.b,c}", "seriesByTag('host=~${v:regex}')"), "seriesByTag('host=~(a\\.b|c)')");
  assert.equal(filled("*", "seriesByTag('host=~[[v:regex]]')"), "seriesByTag('host=~.*')");
  assert.equal(filled("web{1,2}", "a.${v:pipe}.b"), "a.web{1,2}.b");
  assert.equal(filled("{a,b}", "'${v:pipe}' '${v:csv}' '${v:glob}' '${v}'"), "'a|b' 'a,b' '{a,b}' '{a,b}'");
});

test("a dashboard in Grafana's schema v2 is read in the order of its layout", () => {
  const query = (group, spec, hidden = false, refId = "A") => ({ kind: "PanelQuery", spec: { refId, hidden, query: { kind: "DataQuery", group, version: "v0", datasource: { name: "uid" }, spec } } });
  const panel = (title, queries, queryOptions = {}) => ({ kind: "Panel", spec: { id: 1, title, data: { kind: "QueryGroup", spec: { queries, queryOptions, transformations: [] } }, vizConfig: { kind: "VizConfig", group: "timeseries", spec: { options: {}, fieldConfig: { defaults: { unit: "bytes", custom: { stacking: { mode: "normal" } } }, overrides: [] } } } } });
  const item = (name, repeat) => ({ kind: "GridLayoutItem", spec: { x: 0, y: 0, width: 12, height: 8, element: { kind: "ElementReference", name }, ...(repeat ? { repeat: { mode: "variable", value: repeat } } : {}) } });
  const spec = {
    title: "Hosts",
    timeSettings: { from: "now-3h", to: "now", timezone: "utc" },
    variables: [
      { kind: "QueryVariable", spec: { name: "host", multi: true, current: { text: ["a", "b"], value: ["a", "b"] }, query: { kind: "DataQuery", group: "graphite", spec: { query: "servers.*" } } } },
      { kind: "TextVariable", spec: { name: "part", query: "cpu", current: {} } },
    ],
    elements: {
      "panel-1": panel("Second", [query("graphite", { target: "load.$host" })], { timeFrom: "2h" }),
      "panel-2": panel("First", [query("graphite", { target: "servers.$host.$part" }, true), query("graphite", { target: "sumSeries(#A)" }, false, "B"), query("prometheus", { expr: "up" }, false, "C")]),
      "panel-3": { kind: "LibraryPanel", spec: { id: 3, title: "Lib", libraryPanel: { name: "Shared", uid: "u" } } },
    },
    layout: { kind: "RowsLayout", spec: { rows: [{ kind: "RowsLayoutRow", spec: { title: "Row", layout: { kind: "GridLayout", spec: { items: [item("panel-2", "host"), item("panel-3")] } } } }, { kind: "RowsLayoutRow", spec: { layout: { kind: "GridLayout", spec: { items: [item("panel-1")] } } } }] } },
  };
  for (const whole of [spec, { apiVersion: "dashboard.grafana.app/v2", kind: "Dashboard", metadata: {}, spec }]) {
    const imported = page.readImport(JSON.stringify(whole));
    const view = page.filled(imported, imported.variables);
    assert.deepEqual([view.from, view.tz, view.panels.map((one) => [one.title, ...one.targets])], ["-3h", "UTC", [["First", "sumSeries(servers.{a,b}.cpu)"], ["Second", "load.{a,b}"]]]);
    assert.deepEqual(view.panels[0].options, [["areaMode", "stacked"], ["yUnitSystem", "binary"]]);
    assert.equal(imported.leftOut.length, 4, imported.leftOut.join());
  }
  assert.throws(() => page.readImport('{"spec":{"elements":{"a":{}}}}'), page.Unreadable);
  const elements = { a: panel("Empty", [query("graphite", {}), query("graphite", { target: "x" }, false, "B"), query("prometheus", {}, false, "C")]) };
  assert.deepEqual(page.readImport(JSON.stringify({ elements })).leftOut, ["Empty, query A: it is empty", "Empty, query C: no query of Graphite (prometheus)"]);
  const others = { panels: [{ title: "Old", targets: [{ expr: "up" }, { refId: "B" }, { target: "x" }] }] };
  assert.deepEqual(page.readImport(JSON.stringify(others)).leftOut, ["Old, query 1: no query of Graphite", "Old, query B: it is empty"]);
});

test("a filter of values is a text, not a pattern", () => {
  assert.equal(page.holding(""), "");
  const fits = (filter, value) => new RegExp(`^(?:${page.holding(filter).replace("(?is)", "")})`, "is").test(value);
  for (const [filter, value, isFit] of [["b.c", "A.B.C", true], ["b.c", "a-bxc", false], ["(", "f(x)", true], ["\\", "a\\b", true]]) assert.equal(fits(filter, value), isFit, filter);
});

test("escapes outside of strings stay when a target is formatted", () => {
  const target = `sumSeries(a.o\\'brien.${"x".repeat(40)}, b.\\(c\\).${"y".repeat(40)})`;
  assert.equal(page.format(target).replace(/\s/g, ""), target.replace(/\s/g, ""));
  assert.equal(page.format(target).split("\n").length, 4);
});

test("an axis has two ends in order, whatever is asked for", () => {
  assert.deepEqual(page.padded(2, 10, null, 20), [0, 20]);
  assert.deepEqual(page.padded(2, 10, 5, 5), page.padded(2, 10, null, null));
  assert.deepEqual(page.padded(2, 10, 9, -9), page.padded(2, 10, null, null));
  assert.deepEqual(page.padded(2, 10, null, -5), [-6, -5]);
  assert.deepEqual(page.padded(2, 10, 50, null), [50, 51]);
  for (const min of [-7, -1, 0, 3]) {
    for (const max of [-7, 0, 3]) {
      if (max < min) continue;
      const [from, to] = page.padded(min, max, null, null);
      assert.ok(from < to && from <= min && max <= to, `${min} ${max}: ${from} ${to}`);
    }
  }
});
