#!/usr/bin/env node
// Drizzle: a table, and functions by its sql template.
'use strict';
const { ok, equal, example, exampleHolds, failure, test, doc } = require('../node_pg/tap.js');

test('drizzle', 'node_orms', async (load, connection) => {
    const { drizzle } = load('drizzle-orm/node-postgres');
    const { bigint, pgTable, text } = load('drizzle-orm/pg-core');
    const { DrizzleQueryError, eq, sql } = load('drizzle-orm');
    const { Pool } = load('pg');
    const pool = new Pool(connection);
    const db = drizzle(pool);
    const orders = pgTable('orders', { id: bigint({ mode: 'number' }).primaryKey(), state: text() });
    const ask = async (query) => Object.values((await db.execute(query)).rows[0])[0];
    await db.update(orders).set({ state: 'paid' }).where(eq(orders.id, 1));
    equal(await ask(sql`select pawl.fire('orders', ${1}, ${'send'})`), 'sent', 'fire takes an integer key');
    equal(await ask(sql`select pawl.fire('docs', ${doc}, 'pay')`), 'paid', 'fire takes a UUID');
    equal(await ask(sql`select pawl.fire('orders', ${2}, events => ${sql.param(['pay', 'send'])})`), 'sent',
        'fire takes a list of events');
    equal(await ask(sql`select count(*)::int from pawl.history('orders', ${2})`), 3, 'history takes a key');
    const error = await failure(db.update(orders).set({ state: 'sent' }).where(eq(orders.id, 3)));
    equal([error.cause.code, error.cause.column, error.cause.constraint], ['23514', 'state', 'orders_state_machine'],
        'the cause of a rejected state change has SQLSTATE, column and constraint');
    ok(error.cause.hint.includes('pay'), 'its HINT lists what is possible', error.cause.hint);
    ok(error instanceof DrizzleQueryError, 'which is a DrizzleQueryError', error);
    const own = await failure(ask(sql`select pawl.fire('docs', ${doc}, 'pay')`));
    equal([own instanceof DrizzleQueryError, own.cause.code, own.cause.hint.includes('send')], [true, 'PW001', true],
        'other tables keep the codes, with a HINT');
    const setState = example('Drizzle', { orders, eq });
    await exampleHolds((id, state) => setState(db, id, state),
        async (id) => (await db.select().from(orders).where(eq(orders.id, id)))[0].state);
    await db.transaction(async (transaction) => {
        await transaction.execute(sql`select pawl.set_context(processor => ${'web'})`);
        await transaction.update(orders).set({ state: 'paid' }).where(eq(orders.id, 4));
    });
    equal(await ask(sql`select processor from pawl.history('orders', ${4}) order by sort_key desc`), 'web',
        'the context of a transaction is recorded');
    await pool.end();
});
