// Runs the examples in TypeScript of a page, which need no types, one after the other as one module: readme.mjs PAGE.
// PAWL_TYPESCRIPT names the package, which the module imports as any other.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const folder = mkdtempSync(path.join(tmpdir(), 'pawl-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
mkdirSync(`${folder}/node_modules`);
symlinkSync(process.env.PAWL_TYPESCRIPT, `${folder}/node_modules/pawl`);
symlinkSync(`${process.env.PAWL_TYPESCRIPT}/node_modules/pg`, `${folder}/node_modules/pg`);
const examples = [...readFileSync(process.argv[2], 'utf8').matchAll(/^```ts\n(.*?)^```/gms)].map(([, code]) => code);
const before = `
const send = async (key) => { console.log('sent', key); return true; };
const book = async (card) => card + '-1';
`;
const whole = examples.join('\n');
const imports = /^import .* from 'pawl'/m.test(whole) ? '' : "import * as pawl from 'pawl';";
writeFileSync(`${folder}/example.mjs`, `${imports}${before}${whole}`);
await import(`${folder}/example.mjs`);
process.exit(0);
