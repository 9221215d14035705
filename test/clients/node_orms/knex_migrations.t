#!/usr/bin/env node
// knex's migrations on an enforced table: .alter() of the state and the key, renames.
'use strict';
const { ok, equal, failure, test } = require('../node_pg/tap.js');

const diagram = `stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> sent : send
    sent --> [*]`;

/** Migrations from memory; each is a transaction, as from files. */
class Source {
    constructor(migrations) {
        this.migrations = migrations;
    }
    async getMigrations() {
        return Object.keys(this.migrations);
    }
    getMigrationName(name) {
        return name;
    }
    async getMigration(name) {
        return { up: this.migrations[name], down: async () => {} };
    }
}

test('knex_migrations', 'node_orms', async (load, connection) => {
    const knex = load('knex')({ client: 'pg', connection, pool: { min: 1, max: 1 } });
    const ask = async (text, values = []) => (await knex.raw(text, values)).rows;
    const migrations = {
        '1_make': async (db) => {
            await db.schema.createTable('sales', (t) => {
                t.increments('id');
                t.string('state', 20).notNullable().defaultTo('new');
            });
            await db.raw('select pawl.define(?, ?)', ['knex_sale', diagram]);
            await db.raw("select pawl.enforce('sales', 'state', 'knex_sale', on_delete => 'terminal'), "
                + "pawl.enable_log('sales')");
        },
    };
    const migrate = () => knex.migrate.latest({ migrationSource: new Source(migrations) });
    const enforced = async (table, column, name) => {
        const error = await failure(knex(table).where({ id: 2 }).update({ [column]: 'sent' }));
        equal(error && error.code, 'PW001', `${name}: an illegal state change is rejected`);
        ok(await failure(knex(table).where({ id: 2 }).delete()), `${name}: the policies stay`);
        equal(await ask(`select problem, detail from pawl.verify('${table}')`), [], `${name}: rows and log agree`);
    };
    await migrate();
    await knex('sales').insert([{ state: 'new' }, { state: 'new' }]);
    await knex('sales').where({ id: 1 }).update({ state: 'paid' });
    await enforced('sales', 'state', 'at first');
    const before = await ask("select pawl.definition('sales')");

    migrations['2_alter'] = async (db) => {
        await db.schema.alterTable('sales', (t) => {
            t.string('state', 50).notNullable().defaultTo('new').alter();
        });
        await db.schema.alterTable('sales', (t) => {
            t.text('state').notNullable().defaultTo('new').alter();
        });
        await db.schema.alterTable('sales', (t) => {
            t.bigInteger('id').notNullable().alter({ alterNullable: false });
        });
    };
    await migrate();
    await enforced('sales', 'state', '.alter()');
    equal(await ask("select pawl.definition('sales')"), before, '.alter(): the definition is what it was');
    equal(await ask("select pg_typeof(subject_id)::text as type, count(*)::int as n from sales_transitions group by 1"),
        [{ type: 'bigint', n: 3 }], '.alter(): the log has the new type of the key, and its entries');

    migrations['3_rename'] = async (db) => {
        await db.schema.alterTable('sales', (t) => t.renameColumn('state', 'phase'));
        await db.schema.renameTable('sales', 'deals');
    };
    await migrate();
    await knex('deals').where({ id: 1 }).update({ phase: 'sent' });
    await enforced('deals', 'phase', 'renames');
    equal((await ask("select to_state from pawl.history('deals', 1) order by sort_key")).map((r) => r.to_state),
        ['new', 'paid', 'sent'], 'renames: the log goes on');

    migrations['4_cut'] = (db) => db.schema.alterTable('deals', (t) => t.string('phase', 2).alter());
    const error = await failure(migrate());
    ok(error && ['42804', '22001'].includes(error.code), 'a type that cannot hold the states is rejected', error);
    await enforced('deals', 'phase', 'after a migration that failed');
    await knex.destroy();
});
