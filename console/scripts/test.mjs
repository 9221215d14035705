// Runs the unit tests of the pure parts: bundled by esbuild, so that Node reads
// TypeScript of any version, then by Node's own runner.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const out = mkdtempSync(join(tmpdir(), "console-test-"));
const tests = readdirSync("test").filter((f) => f.endsWith(".test.ts"));
await build({
    entryPoints: tests.map((f) => "test/" + f),
    outdir: out,
    bundle: true,
    platform: "node",
    format: "esm",
    outExtension: { ".js": ".mjs" },
    jsx: "automatic",
    jsxImportSource: "preact",
    logLevel: "warning",
});
const run = spawnSync(
    process.execPath,
    ["--test", ...process.argv.slice(2), ...tests.map((f) => join(out, f.replace(/ts$/, "mjs")))],
    { stdio: "inherit" },
);
rmSync(out, { recursive: true, force: true });
process.exit(run.status ?? 1);
