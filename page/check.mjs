// Checks the page: types, sizes, and that dist/ is what the sources build to, byte by byte. build.mjs refuses packages
// with other licences than it lists.
//   node check.mjs

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { gzipSync } from "node:zlib";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
process.chdir(here);
const run = (...args) => execFileSync(process.execPath, args, { stdio: "inherit" });
const problems = [];

for (const [name, text] of [["package-lock.json", readFileSync("package-lock.json", "utf8")]]) {
  if (text.includes('"resolved"')) problems.push(`${name} names the host of a registry; .npmrc must omit it`);
}
const wanted = JSON.parse(readFileSync("package.json", "utf8"));
for (const [name, version] of Object.entries({ ...wanted.dependencies, ...wanted.devDependencies })) {
  if (!/^\d+\.\d+\.\d+$/.test(version)) problems.push(`package.json: ${name} has no exact version`);
}
run("node_modules/typescript/bin/tsc", "-p", ".");
run("--test", "tests/");
const built = mkdtempSync(join(tmpdir(), "plumbago-page-"));
try {
  run("build.mjs", built);
  const files = new Set([...readdirSync("dist"), ...readdirSync(built)]);
  for (const file of files) {
    const read = (directory) => {
      try {
        return readFileSync(join(directory, file));
      } catch {
        return Buffer.alloc(0);
      }
    };
    if (!read("dist").equals(read(built))) problems.push(`dist/${file} is not what the sources build to; run \`npm run build\` in page/`);
  }
} finally {
  rmSync(built, { recursive: true });
}
// What a browser loads before the first paint, and all of it.
const zipped = (names) => names.reduce((sum, name) => sum + gzipSync(readFileSync(join("dist", name)), { level: 9 }).length, 0);
const first = zipped(["index.html", "page.js", "style.css"]);
const all = first + zipped(["codemirror.js", "licences.txt"]);
console.log(`first load ${(first / 1024).toFixed(1)} KiB gzipped, all files ${(all / 1024).toFixed(1)} KiB`);
if (first > 80 * 1024) problems.push("the first load is larger than 80 KiB gzipped");
if (all > 240 * 1024) problems.push("all files together are larger than 240 KiB gzipped");
for (const problem of problems) console.error(problem);
process.exitCode = problems.length > 0 ? 1 : 0;
