#!/usr/bin/env node
// TypeORM: an entity, and functions by query.
'use strict';
const { ok, equal, example, exampleHolds, failure, test, doc } = require('../node_pg/tap.js');

test('typeorm', 'node_orms', async (load, connection) => {
    load('reflect-metadata');
    const { DataSource, EntitySchema, QueryFailedError } = load('typeorm');
    const Order = new EntitySchema({
        name: 'Order', tableName: 'orders',
        columns: { id: { type: 'bigint', primary: true, generated: 'identity' }, state: { type: 'text' } },
    });
    const source = await new DataSource({
        type: 'postgres', host: connection.host, port: connection.port, username: connection.user,
        database: connection.database, extra: { options: connection.options }, entities: [Order],
    }).initialize();
    const ask = async (text, ...values) => Object.values((await source.query(text, values))[0])[0];
    const orders = source.getRepository('Order');
    await orders.update({ id: 1 }, { state: 'paid' });
    equal(await ask("select pawl.fire('orders', $1, $2)", 1, 'send'), 'sent', 'fire takes an integer key');
    equal(await ask("select pawl.fire('docs', $1, 'pay')", doc), 'paid', 'fire takes a UUID');
    equal(await ask("select pawl.fire('orders', $1, events => $2)", 2, ['pay', 'send']), 'sent',
        'fire takes a list of events');
    equal(await ask("select count(*)::int from pawl.history('orders', $1)", 2), 3, 'history takes a key');
    const order = await orders.findOneBy({ id: 3 });
    order.state = 'sent';
    const error = await failure(orders.save(order));
    ok(error instanceof QueryFailedError, 'a rejected state change is a QueryFailedError', error);
    equal([error.driverError.code, error.driverError.column, error.driverError.constraint],
        ['23514', 'state', 'orders_state_machine'], 'its SQLSTATE, column and constraint');
    ok(error.driverError.hint.includes('pay'), 'its HINT lists what is possible', error.driverError.hint);
    const own = await failure(ask("select pawl.fire('docs', $1, 'pay')", doc));
    equal([own instanceof QueryFailedError, own.driverError.code, own.driverError.hint.includes('send')],
        [true, 'PW001', true], 'other tables keep the codes, with a HINT');
    const setState = example('TypeORM');
    await exampleHolds(async (id, state) => setState(orders, await orders.findOneBy({ id }), state),
        async (id) => (await orders.findOneBy({ id })).state);
    await source.transaction(async (manager) => {
        await manager.query('select pawl.set_context(processor => $1)', ['web']);
        await manager.update('Order', { id: 4 }, { state: 'paid' });
    });
    equal(await ask("select processor from pawl.history('orders', $1) order by sort_key desc", 4), 'web',
        'the context of a transaction is recorded');
    await source.destroy();
});
