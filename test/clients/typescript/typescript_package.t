#!/usr/bin/env node
// The package of client/typescript as a stranger gets it: packed by npm pack, installed in an empty project, imported
// by ES modules, CommonJS and TypeScript; the examples of its page compile in strict mode.
'use strict';
const { spawnSync } = require('child_process');
const { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } = require('fs');
const { tmpdir } = require('os');
const path = require('path');
const { ok, equal, test } = require('../node_pg/tap.js');
const top = path.join(__dirname, '../../..');

/** What a command prints; its exit status must be 0. */
function run(cwd, ...command) {
    const { status, stdout, stderr } = spawnSync(command[0], command.slice(1), { cwd, encoding: 'utf8' });
    ok(status === 0, command.slice(0, 3).map((word) => path.basename(word)).join(' '), stdout + stderr);
    return stdout;
}

test('ts_package', 'typescript', async (load, connection) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'pawl-'));
    process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
    const packages = path.join(process.env.PAWL_CLIENTS, 'typescript/node_modules');
    const source = path.join(folder, 'source');
    cpSync(path.join(top, 'client/typescript'), source,
        { recursive: true, filter: (file) => !/\/(node_modules|dist)$|\.tgz$/.test(file) });
    symlinkSync(packages, path.join(source, 'node_modules'));
    const [packed] = JSON.parse(run(source, 'npm', 'pack', '--json').replace(/^[^[]*/, ''));
    const names = packed.files.map((file) => file.path);
    equal(names.filter((name) => /\.ts$|\.js$/.test(name) && !name.startsWith('dist/')), [],
        'only what is built is packed');
    const built = readdirSync(path.join(source, 'src'))
        .flatMap((name) => [name.replace(/ts$/, 'js'), name.replace(/ts$/, 'd.ts')]);
    equal(built.filter((name) => !names.includes(`dist/${name}`)), [], 'all of it, with its types');
    equal(['README.md', 'package.json'].filter((name) => !names.includes(name)), [], 'and its page');
    const version = /^default_version = '(.*)'/m.exec(readFileSync(`${top}/extension/pawl.control`, 'utf8'))[1];
    equal(packed.version, version, 'its version is that of the extension');

    const project = path.join(folder, 'project');
    mkdirSync(project);
    writeFileSync(path.join(project, 'package.json'), '{"private": true}');
    run(project, 'npm', 'install', '--prefer-offline', '--no-audit', '--no-fund', path.join(source, packed.filename));
    const fire = (id) => `
const client = new pg.Client(${JSON.stringify(connection)});
await client.connect();
console.log(await pawl.fire(client, 'orders', ${id}, 'pay'));
await client.end();
`;
    writeFileSync(path.join(project, 'a.mjs'), `import * as pawl from 'pawl';\nimport pg from 'pg';\n${fire(1)}`);
    equal(run(project, 'node', 'a.mjs'), 'paid\n', 'an ES module imports it');
    writeFileSync(path.join(project, 'b.cjs'),
        `const pg = require('pg');\n(async () => {\nconst pawl = await import('pawl');\n${fire(2)}\n})();\n`);
    equal(run(project, 'node', 'b.cjs'), 'paid\n', 'CommonJS imports it by import()');

    // The examples of the pages in one project each, with the functions that they leave to the reader.
    const before = 'declare function send(key: unknown): Promise<boolean>;\n'
        + 'declare function book(...given: unknown[]): Promise<string>;\n';
    const pages = { 'README.md': "import * as pawl from 'pawl';\n", 'client/typescript/README.md': '' };
    Object.entries(pages).forEach(([page, imports], number) => {
        const examples = [...readFileSync(path.join(top, page), 'utf8').matchAll(/^```ts\n(.*?)^```/gms)];
        ok(examples.length > 0, `${page} has examples`);
        const code = examples.map(([, example]) => example).join('\n');
        writeFileSync(path.join(project, `page_${number}.mts`), imports + before + code);
    });
    const compile = [path.join(packages, '.bin/tsc'), '--strict', '--noEmit', '--target', 'es2022',
        '--module', 'nodenext'];
    run(project, ...compile, 'page_0.mts', 'page_1.mts');
    writeFileSync(path.join(project, 'wrong.mts'), "import * as pawl from 'pawl';\nnew pawl.Worker({ threads: 4 });\n"
        + "new pawl.Table('jobs', { success: 'finish' });\n");
    const wrong = spawnSync(compile[0], [...compile.slice(1), 'wrong.mts'], { cwd: project, encoding: 'utf8' });
    equal((wrong.stdout.match(/^wrong\.mts.*error/gm) ?? []).length, 2, 'wrong calls do not compile');
});
