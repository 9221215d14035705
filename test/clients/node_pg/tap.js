// What the tests of Node's clients share: TAP, the packages that set-up has installed, and the tables of
// ../fixture.sql.
'use strict';
const { execFileSync } = require('child_process');
const { readFileSync } = require('fs');
const { createRequire } = require('module');
const path = require('path');
const { isDeepStrictEqual } = require('util');

let count = 0;
let failed = 0;

function ok(passed, name, seen) {
    count += 1;
    if (!passed) {
        failed += 1;
        console.error('# have:', seen);
    }
    console.log(`${passed ? 'ok' : 'not ok'} ${count} - ${name}`);
}

/** The error of a promise; null if it has none. */
async function failure(promise) {
    try {
        await promise;
    } catch (error) {
        return error;
    }
    return null;
}

/** The function that docs/drivers.md shows for a client, with the names that its file would import. */
function example(client, names = {}) {
    const page = readFileSync(path.join(__dirname, '../../../docs/drivers.md'), 'utf8');
    const code = page.split(`\n### ${client}\n`)[1].match(/^```js\n(.*?)^```/ms)[1];
    return new Function(...Object.keys(names), `${code}\nreturn setState;`)(...Object.values(names));
}

/** What each example does: set(order, state) calls it, state(order) reads the state. */
async function exampleHolds(set, state) {
    await set(8, 'paid');
    equal(await state(8), 'paid', 'the example of the page changes a state');
    const error = await failure(set(6, 'sent'));
    equal(Object.keys(error.errors), ['state'], 'it makes a validation error of the column');
    ok(error.errors.state[0].includes('no transition') && error.errors.state[1].includes('"paid" (pay)'),
        'with message and HINT', error.errors);
    const other = await failure(set(9, 'paid'));
    ok(other && !other.errors, 'and leaves other constraints alone', other);
}

/** Runs a test against a schema of the client's name, with the packages of a folder. */
async function test(client, folder, body) {
    const load = createRequire(path.join(process.env.PAWL_CLIENTS, folder, '/'));
    execFileSync('psql', ['-X', '-q', '-d', 'pawl_clients', '-v', `client=${client}`, '-f',
        path.join(__dirname, '..', 'fixture.sql')]);
    const connection = {
        host: process.env.PGHOST,
        port: Number(process.env.PGPORT),
        user: process.env.PGUSER,
        database: 'pawl_clients',
        options: `-c search_path=${client},public`,
    };
    try {
        await body(load, connection);
    } catch (error) {
        console.error(error);
        process.exit(1);
    }
    console.log(`1..${count}`);
    process.exit(failed ? 1 : 0);
}

function equal(have, want, name) {
    ok(isDeepStrictEqual(have, want), name, have);
}

module.exports = { ok, equal, example, exampleHolds, failure, test, doc: '6ecd8c99-4036-403d-bf84-cf8400f67836' };
