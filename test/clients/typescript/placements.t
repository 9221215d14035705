#!/usr/bin/env node
// pawl.Placements: calls go to the database that a namespace is in, also while it moves (the move itself, with workers
// that follow it, is in test/tap/124_workers_follow.pl).
'use strict';
const path = require('path');
const { equal, failure, ok, test } = require('../node_pg/tap.js');

test('ts_placements', 'typescript', async (load, connection) => {
    const pawl = await import(path.join(process.env.PAWL_CLIENTS, 'typescript/dist/index.js'));
    const { Client } = load('pg');
    const names = ['ts_a', 'ts_b'];
    const { host, port, user } = connection;
    const member = (database) => ({ host, port, user, database, options: '-c client_min_messages=error' });
    const uri = (database) => `postgresql:///${database}?host=${host}&port=${port}&user=${user}`;
    const connect = async (database) => {
        const client = new Client(member(database));
        await client.connect();
        return client;
    };
    const postgres = await connect('postgres');
    const databases = [];
    for (const name of names) {
        await postgres.query(`drop database if exists ${name}`);
        await postgres.query(`create database ${name}`);
        const client = await connect(name);
        databases.push(client);
        await client.query('create extension pawl; create extension pawl_dag');
        for (const namespace of ['billing', 'other'])
            await client.query("select pawl_dag.define_template(jsonb_build_object('name', 'one',"
                + " 'namespace', $1::text, 'identity_strategy', 'always_unique',"
                + " 'steps', '[{\"name\": \"a\"}]'::jsonb))", [namespace]);
    }
    const place = (client, namespace, there) => client.query("insert into pawl.placement (kind, namespace, database)"
        + " values ('dag', $1, $2) on conflict (kind, namespace) do update set database = excluded.database",
    [namespace, there]);
    let tried = [];
    const start = (client) => {
        tried.push(client.database);
        return pawl.startTask(client, 'one', {}, { namespace: 'billing' });
    };
    const tasks = async () => {
        const counted = [];
        for (const client of databases)
            counted.push(Number((await client.query('select count(*) from pawl_dag.tasks')).rows[0].count));
        return counted;
    };
    const where = async (placements, kind, namespace) => {
        const { connectionString, database } = await placements.find(kind, namespace);
        return connectionString ?? database;
    };

    let placements = new pawl.Placements(member('ts_b'));
    equal(await where(placements, 'dag', 'billing'), 'ts_b',
        'a database that is not one of several has every namespace');
    await placements.run('dag', 'billing', start);
    equal([tried, await tasks()], [['ts_b'], [0, 1]], 'so a call goes there');
    await databases[1].query('delete from pawl_dag.tasks');

    for (const [number, client] of databases.entries()) {
        await client.query("insert into pawl.database (name, connection, is_home, is_here) values ('a', $1, true, $2),"
            + " ('b', $3, false, $4)", [uri('ts_a'), number === 0, uri('ts_b'), number === 1]);
        await place(client, null, 'a');
    }
    placements = new pawl.Placements(member('ts_b'));
    equal(await where(placements, 'dag', 'billing'), uri('ts_a'),
        'a member knows where the namespaces are that have no place of their own');
    tried = [];
    await placements.run('dag', 'billing', start);
    equal([tried, await tasks()], [['ts_a'], [1, 0]], 'a call goes there from any member');
    ok((await failure(placements.find('shop', 'x'))) instanceof pawl.PlacedElsewhere,
        'a kind without a place is nowhere');

    // It moves.
    for (const client of databases) await place(client, 'billing', 'b');
    tried = [];
    await placements.run('dag', 'billing', start);
    equal([tried, await tasks()], [['ts_a', 'ts_b'], [1, 1]], 'a rejected call is made again where the namespace is');
    tried = [];
    await placements.run('dag', 'billing', start);
    equal(tried, ['ts_b'], 'which is remembered');
    equal(await where(placements, 'dag', 'other'), uri('ts_a'), 'other namespaces stay');

    // It is on its way: each database says that it is in the other.
    await place(databases[1], 'billing', 'a');
    const error = await failure(new pawl.Placements(member('ts_b'), 100).run('dag', 'billing', start));
    ok(error instanceof pawl.PlacedElsewhere, 'a call does not wait longer than its patience', error);
    equal(error.sqlstate, 'PW009', 'and says why');
    tried = [];
    const waiting = placements.run('dag', 'billing', start);
    while (tried.length < 4) await new Promise((resolve) => setTimeout(resolve, 10));
    equal(await tasks(), [1, 2], 'a call waits while a namespace is on its way');
    await place(databases[1], 'billing', 'b');
    await waiting;
    equal(await tasks(), [1, 3], 'and is done once when it is there');

    // Errors
    ok((await failure(placements.run('dag', 'billing', (client) => pawl.fire(client, 'pawl_dag.tasks', 'x', 'y'))))
        instanceof pawl.UnknownObject, 'other errors of the call are thrown');
    equal(await tasks(), [1, 3], 'and undo it');
    ok((await failure(new pawl.Placements({ host: '/nowhere' }).find('dag', 'billing')))
        instanceof pawl.ConnectionLost, 'no member, no answer');
    await databases[1].query("update pawl.database set connection = 'postgresql:///x?host=/nowhere' where is_home");
    const alone = new pawl.Placements(member('ts_b'));
    equal(await where(alone, 'dag', 'billing'), uri('ts_b'), 'while the home is down, the copy of a member counts');
    await place(databases[1], 'billing', 'a');
    await alone.refresh();
    equal(await where(alone, 'dag', 'billing'), 'postgresql:///x?host=/nowhere', 'as it is when it is read again');
    const table = new pawl.Table('x', { success: 'a', failure: 'b' });
    let thrown = null;
    try {
        new pawl.Worker({ source: table, placed: true });
    } catch (caught) {
        thrown = caught;
    }
    ok(thrown instanceof pawl.PawlError, 'only workers of steps follow their queue', thrown);

    for (const client of databases) await client.end();
    for (const name of names) await postgres.query(`drop database ${name} with (force)`);
    await postgres.end();
});
