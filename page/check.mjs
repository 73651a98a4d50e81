// Checks the page: types, and that dist/ is what the sources build to, byte by byte. build.mjs refuses packages
// with other licences than it lists.
//   node check.mjs

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
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
for (const problem of problems) console.error(problem);
process.exitCode = problems.length > 0 ? 1 : 0;
