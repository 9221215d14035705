#!/usr/bin/env node
// postgres.js: it asks the server for the type of each parameter, which is text for a key.
'use strict';
const { ok, equal, example, exampleHolds, failure, test, doc } = require('../node_pg/tap.js');

test('postgres_js', 'node_orms', async (load, connection) => {
    const postgres = load('postgres');
    const { host, port, user, database } = connection;
    const sql = postgres({
        path: `${host}/.s.PGSQL.${port}`, user, database, max: 1, onnotice: () => undefined,
        connection: { search_path: 'postgres_js,public' },
    });
    const ask = async (query) => Object.values((await query)[0])[0];
    equal(await ask(sql`select pawl.fire('orders', ${'1'}, ${'pay'})`), 'paid', 'fire takes the text of a key');
    equal(await ask(sql`select pawl.fire('orders', ${2}::bigint, ${'pay'})`), 'paid',
        'fire takes an integer with a cast');
    equal(await ask(sql`select pawl.fire('orders', ${'3'}, events => ${['pay', 'send']})`), 'sent',
        'fire takes a list of events');
    equal(await ask(sql`select pawl.fire('orders', ${'1'}, ${'send'}, ${{ by: 'hand' }})`), 'sent',
        'fire takes metadata as an object');
    equal(await ask(sql`select pawl.fire('docs', ${doc}, 'pay')`), 'paid', 'fire takes a UUID');
    equal(await ask(sql`select pawl.fire('lines', array[${'1'}, ${'x'}], 'pay')`), 'paid',
        'an array is a composite key');
    equal(await ask(sql`select array_agg(ok) from pawl.fire_many('orders', ${[4, 5]}::bigint[], ${'pay'})`),
        [true, true], 'fire_many takes a list of keys');
    equal(await ask(sql`select event from pawl.available('orders', ${'4'})`), 'send', 'available takes a key');
    equal(await ask(sql`select count(*)::int from pawl.history('orders', ${'3'})`), 3, 'history takes a key');
    equal(await ask(sql`select pawl.state_at('orders', ${'3'}, now())`), 'sent', 'state_at takes a key');
    const error = await failure(sql`update orders set state = 'sent' where id = ${6}`);
    ok(error instanceof postgres.PostgresError, 'a rejected state change is a PostgresError', error);
    equal([error.code, error.table_name, error.column_name, error.constraint_name],
        ['23514', 'orders', 'state', 'orders_state_machine'], 'its SQLSTATE, table, column and constraint');
    ok(error.hint.includes('pay'), 'its HINT lists what is possible', error.hint);
    const own = await failure(sql`select pawl.fire('docs', ${doc}, 'pay')`);
    equal([own instanceof postgres.PostgresError, own.code, own.hint.includes('send')], [true, 'PW001', true],
        'other tables keep the codes, with a HINT');
    const setState = example('postgres.js');
    await exampleHolds((id, state) => setState(sql, id, state),
        (id) => ask(sql`select state from orders where id = ${id}`));
    await sql.begin(async (transaction) => {
        await transaction`select pawl.set_context(processor => ${'web'})`;
        await transaction`update orders set state = 'paid' where id = ${7}`;
    });
    equal(await ask(sql`select processor from pawl.history('orders', ${'7'}) order by sort_key desc`), 'web',
        'the context of a transaction is recorded');
    await sql.end();
});
