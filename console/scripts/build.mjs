// Builds the console: `node scripts/build.mjs [folder]`. Scripts and styles get names that change with their content;
// Mermaid is a chunk of its own.
import { build } from "esbuild";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

const out = process.argv[2] ?? "dist";

// Mermaid carries two dozen kinds of diagrams; machines are state diagrams, and nothing else is drawn by it.
const kept = /^(stateDiagram(-v2)?|dagre|sizeCapture)-/;
const diagram = /^\.\/chunks\/mermaid\.core\/(?!chunk-)|^\.\/(?!chunk-)[\w-]+-[A-Z0-9]{8}\.mjs$/;
const heavy = /^(katex|cytoscape|cytoscape-cose-bilkent|cytoscape-fcose|elkjs|@mermaid-js\/parser)(\/|$)/;
const onlyStateDiagrams = {
    name: "only-state-diagrams",
    setup(b) {
        const left = (path) => ({ path, namespace: "left-out" });
        b.onResolve({ filter: /./ }, ({ path, importer }) => {
            if (!importer.includes("/mermaid/")) return null;
            if (heavy.test(path)) return left("all");
            return diagram.test(path) && !kept.test(basename(path)) ? left("all") : null;
        });
        b.onLoad({ filter: /./, namespace: "left-out" }, () => ({
            contents: "module.exports = { diagram: {} };",
            loader: "js",
        }));
    },
};

rmSync(out, { recursive: true, force: true });
mkdirSync(join(out, "assets"), { recursive: true });
const { metafile } = await build({
    entryPoints: ["src/main.tsx"],
    outdir: join(out, "assets"),
    bundle: true,
    splitting: true,
    format: "esm",
    minify: true,
    target: "es2021",
    charset: "utf8",
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    assetNames: "[name]-[hash]",
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    metafile: true,
    plugins: [onlyStateDiagrams],
    logLevel: "warning",
});
const main = Object.entries(metafile.outputs).find(([, o]) => o.entryPoint === "src/main.tsx");
if (!main?.[1].cssBundle) throw new Error("no styles were built");
const page = readFileSync("index.html", "utf8")
    .replace("%script%", "./assets/" + basename(main[0]))
    .replace("%style%", "./assets/" + basename(main[1].cssBundle));
writeFileSync(join(out, "index.html"), page);
cpSync("public", out, { recursive: true });
