#!/usr/bin/env node
// node-pg: every parameter is sent as a text without a type.
'use strict';
const { ok, equal, example, exampleHolds, failure, test, doc } = require('./tap.js');

test('node_pg', 'node_pg', async (load, connection) => {
    const { Client, DatabaseError } = load('pg');
    const client = new Client(connection);
    await client.connect();
    const ask = async (text, ...values) => (await client.query({ text, values, rowMode: 'array' })).rows[0][0];

    equal(await ask("select pawl.fire('orders', $1, $2)", 1, 'pay'), 'paid', 'fire takes an integer key');
    equal(await ask("select pawl.fire('orders', $1, $2)", '2', 'pay'), 'paid', 'fire takes the text of a key');
    equal(await ask('select pawl.fire($1, $2, events => $3)', 'orders', 3, ['pay', 'send']), 'sent',
        'fire takes a list of events');
    equal(await ask("select pawl.fire('orders', $1, $2, $3)", 1, 'send', { by: 'hand' }), 'sent',
        'fire takes metadata as an object');
    equal(await ask("select pawl.fire('docs', $1, 'pay')", doc), 'paid', 'fire takes a UUID');
    equal(await ask("select pawl.fire('lines', $1, 'pay')", [1, 'with, comma']), 'paid', 'an array is a composite key');
    equal(await ask("select array_agg(ok) from pawl.fire_many('orders', $1, $2)", [4, 5], 'pay'), [true, true],
        'fire_many takes a list of keys');
    equal(await ask("select array_agg(ok) from pawl.fire_many('lines', $1, $2)", [[1, 'x'], [1, 'with, comma']], 'pay'),
        [true, false], 'fire_many takes a list of composite keys');
    equal(await ask("select event from pawl.available('orders', $1)", 4), 'send', 'available takes a key');
    equal(await ask("select count(*)::int from pawl.history('orders', $1)", 3), 3, 'history takes a key');
    equal(await ask("select pawl.state_at('orders', $1, $2)", 3, new Date(Date.now() + 60000)), 'sent',
        'state_at takes a key and a time');

    let error = await failure(client.query("update orders set state = 'sent' where id = $1", [6]));
    ok(error instanceof DatabaseError, 'a rejected state change is a DatabaseError', error);
    equal([error.code, error.schema, error.table, error.column, error.constraint],
        ['23514', 'node_pg', 'orders', 'state', 'orders_state_machine'], 'its SQLSTATE, table, column and constraint');
    equal(error.detail.slice(0, 7), 'PW001: ', 'its DETAIL begins with the code of pawl');
    ok(error.hint.includes('pay'), 'its HINT lists what is possible', error.hint);
    equal(error.where, undefined, 'it has no CONTEXT');
    error = await failure(client.query("select pawl.fire('docs', $1, 'pay')", [doc]));
    equal([error.code, error.constraint], ['PW001', 'node_pg'], 'other tables keep the codes, and name the machine');
    ok(error instanceof DatabaseError && error.hint.includes('send'), 'with a HINT', error);
    const setState = example('node-pg');
    await exampleHolds((id, state) => setState(client, id, state),
        (id) => ask('select state from orders where id = $1', id));
    error = await failure(client.query("select pawl.fire('orders', $1, 'pay')", ['nonsense']));
    equal(error.code, '22P02', 'a key that is no integer');

    await client.query('begin');
    await client.query('select pawl.set_context(processor => $1, token => $2)', ['web', null]);
    await client.query("select pawl.fire('orders', $1, 'pay')", [7]);
    await client.query('commit');
    equal(await ask("select processor from pawl.history('orders', $1) order by sort_key desc", 7), 'web',
        'the context of a transaction is recorded');
    const warnings = [];
    client.on('notice', (notice) => warnings.push(notice.code));
    await client.query('select pawl.set_context(processor => $1)', ['web']);
    equal(warnings, ['25P01'], 'outside a transaction block a warning says that it is lost');
    await client.end();
});
