#!/usr/bin/env node
// Sequelize's changeColumn on an enforced table: ENUM and back, a longer key, renames.
'use strict';
const { ok, equal, failure, test } = require('../node_pg/tap.js');

const diagram = `stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> sent : send
    sent --> [*]
    class paid owned`;

test('sequelize_migrations', 'node_orms', async (load, connection) => {
    const { DataTypes, Sequelize } = load('sequelize');
    const sequelize = new Sequelize({
        dialect: 'postgres', logging: false, host: connection.host, port: connection.port, username: connection.user,
        database: connection.database, dialectOptions: { options: connection.options },
        define: { timestamps: false }, schema: 'sequelize_migrations',
    });
    const queries = sequelize.getQueryInterface();
    const ask = async (text) => (await sequelize.query(text))[0];
    await queries.createTable('sales', {
        id: { type: DataTypes.INTEGER, primaryKey: true },
        state: { type: DataTypes.STRING(20), allowNull: false, defaultValue: 'new' },
        owner: { type: DataTypes.TEXT },
    });
    await sequelize.query('select pawl.define(?, ?)', { replacements: ['sequelize_sale', diagram] });
    await ask("select pawl.enforce('sales', 'state', 'sequelize_sale', on_delete => 'terminal'), "
        + "pawl.enable_log('sales')");
    await ask("select pawl.enable_queue('sales', owner => 'owner')");
    await ask("select pawl.set_claiming('sales', claim => '{pay}')");
    await ask('insert into sales (id) values (1), (2), (3)');
    const enforced = async (table, column, name) => {
        const error = await failure(ask(`update ${table} set ${column} = 'sent' where id = 3`));
        equal(error && error.original.code, 'PW001', `${name}: an illegal state change is rejected`);
        ok(await failure(ask(`delete from ${table} where id = 3`)), `${name}: the policies stay`);
        equal(await ask(`select problem, detail from pawl.verify('${table}')`), [], `${name}: rows and log agree`);
        equal(await ask(`select check_name, detail from pawl.health() where relation = '${table}'::regclass `
            + "and status = 'error'"), [], `${name}: health finds no fault`);
    };
    await enforced('sales', 'state', 'at first');
    const before = await ask("select pawl.definition('sales')");

    // PostgreSQL itself casts no default to an enum, so it goes before, and comes after
    await queries.changeColumn('sales', 'state', { type: DataTypes.ENUM('new', 'paid', 'sent'), allowNull: false });
    await ask("alter table sales alter column state set default 'new'");
    await queries.changeColumn('sales', 'id', { type: DataTypes.BIGINT, allowNull: false });
    await enforced('sales', 'state', 'ENUM');
    equal(await ask("select pawl.definition('sales')"), before, 'ENUM: the definition is what it was');
    equal(await ask("select id::int, state::text from pawl.claim(null::sales, processor => 'anna')"),
        [{ id: 1, state: 'paid' }], 'ENUM: rows are claimed');

    await queries.changeColumn('sales', 'state', { type: DataTypes.TEXT, allowNull: false });
    await queries.renameColumn('sales', 'state', 'phase');
    await queries.renameTable('sales', 'deals');
    await enforced('deals', 'phase', 'TEXT, renames');
    equal((await ask("select to_state from pawl.history('deals', 1) order by sort_key")).map((r) => r.to_state),
        ['new', 'paid'], 'renames: the log goes on');

    const error = await failure(ask("alter table deals alter column phase type text using upper(phase)"));
    equal(error && error.original.code, '2BP01', 'other texts are rejected');
    ok(error.original.hint.includes('pawl.definition'), 'other texts: the HINT', error.original.hint);
    await sequelize.close();
});
