// Builds dist/: the page's script, style and start page under fixed names, and the licences of what is in them.
//   node build.mjs [DIRECTORY]

import { build } from "esbuild";
import { copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
process.chdir(here);
const out = process.argv[2] ?? "dist";
const ALLOWED = ["MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "0BSD"];

mkdirSync(out, { recursive: true });
const result = await build({
  entryPoints: { page: "src/main.tsx", style: "src/style.css" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
});
const editor = await build({
  entryPoints: { codemirror: "src/codemirror.ts" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  charset: "utf8",
  legalComments: "none",
  metafile: true,
});
copyFileSync("src/index.html", join(out, "index.html"));

const packages = new Set();
for (const input of Object.keys({ ...result.metafile.inputs, ...editor.metafile.inputs })) {
  const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
  if (found) packages.add(found[1]);
}
let licences = "The page contains these packages.\n";
for (const name of [...packages].sort()) {
  const directory = join("node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"));
  if (!ALLOWED.includes(license)) throw new Error(`${name}: the licence ${license} is not among ${ALLOWED.join(", ")}`);
  const file = readdirSync(directory).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) throw new Error(`${name}: no licence file`);
  licences += `\n${"-".repeat(70)}\n${name} ${version} (${license})\n\n${readFileSync(join(directory, file), "utf8").trim()}\n`;
}
writeFileSync(join(out, "licences.txt"), licences.replaceAll("\r\n", "\n"));
