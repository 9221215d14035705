#!/usr/bin/env node
// knex: its query builder, and functions by raw.
'use strict';
const { ok, equal, example, exampleHolds, failure, test, doc } = require('../node_pg/tap.js');

test('knex', 'node_orms', async (load, connection) => {
    const knex = load('knex')({ client: 'pg', connection });
    const ask = async (text, values) => Object.values((await knex.raw(text, values)).rows[0])[0];
    await knex('orders').where({ id: 1 }).update({ state: 'paid' });
    equal(await ask("select pawl.fire('orders', ?, ?)", [1, 'send']), 'sent', 'fire takes an integer key');
    equal(await ask("select pawl.fire('docs', ?, 'pay')", [doc]), 'paid', 'fire takes a UUID');
    equal(await ask("select pawl.fire('orders', ?, events => ?)", [2, ['pay', 'send']]), 'sent',
        'fire takes a list of events');
    equal(await ask("select count(*)::int from pawl.history('orders', ?)", [2]), 3, 'history takes a key');
    const error = await failure(knex('orders').where({ id: 3 }).update({ state: 'sent' }));
    equal([error.code, error.column, error.constraint], ['23514', 'state', 'orders_state_machine'],
        'a rejected state change has SQLSTATE, column and constraint');
    ok(error.hint.includes('pay'), 'its HINT lists what is possible', error.hint);
    const own = await failure(ask("select pawl.fire('docs', ?, 'pay')", [doc]));
    equal([own.code, own.hint.includes('send')], ['PW001', true], 'other tables keep the codes, with a HINT');
    const setState = example('knex');
    await exampleHolds((id, state) => setState(knex, id, state),
        (id) => ask('select state from orders where id = ?', [id]));
    await knex.transaction(async (transaction) => {
        await transaction.raw('select pawl.set_context(processor => ?)', ['web']);
        await transaction('orders').where({ id: 4 }).update({ state: 'paid' });
    });
    equal(await ask("select processor from pawl.history('orders', ?) order by sort_key desc", [4]), 'web',
        'the context of a transaction is recorded');
    await knex.destroy();
});
