// Makes of a built console what pawld is compiled with: each file as it is sent (gzip
// where that is smaller) and a table of them.
//     node pack.mjs <folder with index.html> <folder for console_files.inc and the parts>
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { gzipSync } from "node:zlib";

const [from, to] = process.argv.slice(2).map((folder) => resolve(folder));
const types = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
};

function* walk(folder) {
    for (const name of readdirSync(folder).sort()) {
        const path = join(folder, name);
        if (statSync(path).isDirectory()) yield* walk(path);
        else yield path;
    }
}

rmSync(to, { recursive: true, force: true });
mkdirSync(to, { recursive: true });
let table = "// Made by console/scripts/pack.mjs.\n",
    total = 0,
    n = 0;
for (const path of walk(from)) {
    const name = relative(from, path);
    const type = types[/\.[a-z]+$/.exec(name)?.[0]];
    if (!type) throw new Error("no content type for " + name);
    const plain = readFileSync(path);
    const squeezed = gzipSync(plain, { level: 9 });
    const gzip = squeezed.length < plain.length;
    const part = join(to, n++ + ".part");
    writeFileSync(part, gzip ? squeezed : plain);
    total += gzip ? squeezed.length : plain.length;
    const tag = createHash("sha256").update(plain).digest("hex").slice(0, 20);
    table += `PAWL_CONSOLE_FILE(${n}, "${name}", "${type}", "${tag}", ${gzip}, ${name.startsWith("assets/")}, "${part}")\n`;
}
writeFileSync(join(to, "console_files.inc"), table);
console.log(`${n} files, ${total} bytes as sent`);
