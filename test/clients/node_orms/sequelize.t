#!/usr/bin/env node
// Sequelize: a model, and functions by replacements and bind parameters.
'use strict';
const { ok, equal, example, failure, test, doc } = require('../node_pg/tap.js');

test('sequelize', 'node_orms', async (load, connection) => {
    const { Sequelize, DataTypes, DatabaseError, QueryTypes, ValidationError, ValidationErrorItem } = load('sequelize');
    const sequelize = new Sequelize(connection.database, connection.user, undefined, {
        host: connection.host, port: connection.port, dialect: 'postgres', logging: false,
        dialectOptions: { options: connection.options },
    });
    const Order = sequelize.define('Order', { state: DataTypes.TEXT, note: DataTypes.TEXT },
        { tableName: 'orders', timestamps: false });
    const ask = async (text, how) =>
        Object.values((await sequelize.query(text, { ...how, type: QueryTypes.SELECT }))[0])[0];
    await (await Order.findByPk(1)).update({ state: 'paid' });
    equal(await ask("select pawl.fire('orders', $1, $2)", { bind: [1, 'send'] }), 'sent', 'fire takes a bound key');
    equal(await ask("select pawl.fire('orders', :key, 'pay')", { replacements: { key: 2 } }), 'paid',
        'fire takes a replaced key');
    equal(await ask("select pawl.fire('docs', $1, 'pay')", { bind: [doc] }), 'paid', 'fire takes a UUID');
    equal(await ask("select pawl.fire('orders', $1, events => $2)", { bind: [3, ['pay', 'send']] }), 'sent',
        'fire takes a list of events');
    equal(await ask("select count(*)::int from pawl.history('orders', $1)", { bind: [3] }), 3, 'history takes a key');
    const order = await Order.findByPk(4);
    const error = await failure(order.update({ state: 'sent' }));
    ok(error instanceof DatabaseError, 'a rejected state change is a DatabaseError', error);
    equal([error.parent.code, error.parent.column, error.parent.constraint],
        ['23514', 'state', 'orders_state_machine'], 'its SQLSTATE, column and constraint');
    ok(error.parent.hint.includes('pay'), 'its HINT lists what is possible', error.parent.hint);
    const own = await failure(ask("select pawl.fire('docs', $1, 'pay')", { bind: [doc] }));
    equal([own instanceof DatabaseError, own.parent.code, own.parent.hint.includes('send')], [true, 'PW001', true],
        'other tables keep the codes, with a HINT');
    const setState = example('Sequelize', { ValidationError, ValidationErrorItem });
    await setState(await Order.findByPk(8), 'paid');
    equal((await Order.findByPk(8)).state, 'paid', 'the example of the page changes a state');
    const invalid = await failure(setState(await Order.findByPk(6), 'sent'));
    ok(invalid instanceof ValidationError, 'it makes a validation error', invalid);
    equal(invalid.errors.map((item) => item.path), ['state', 'state'], 'of the column');
    ok(invalid.get('state')[0].message.includes('no transition') && invalid.errors[1].message.includes('"paid" (pay)'),
        'with message and HINT', invalid.errors);
    ok(await failure(setState(await Order.findByPk(9), 'paid')) instanceof DatabaseError,
        'and leaves other constraints alone');
    await sequelize.transaction(async (transaction) => {
        await sequelize.query('select pawl.set_context(processor => $1)', { bind: ['web'], transaction });
        await Order.update({ state: 'paid' }, { where: { id: 4 }, transaction });
    });
    equal(await ask("select processor from pawl.history('orders', $1) order by sort_key desc limit 1", { bind: [4] }),
        'web', 'the context of a transaction is recorded');
    await sequelize.close();
});
