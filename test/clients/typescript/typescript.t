#!/usr/bin/env node
// The package of client/typescript: calls in a transaction, errors as types, workers on rows of operations and on tasks
// of flows (those on tables and steps are in test/tap/106_workers.pl).
'use strict';
const { readFileSync } = require('fs');
const path = require('path');
const { ok, equal, failure, test, doc } = require('../node_pg/tap.js');
const top = path.join(__dirname, '../../..');

test('typescript', 'typescript', async (load, connection) => {
    const pawl = await import(path.join(process.env.PAWL_CLIENTS, 'typescript/dist/index.js'));
    const { Client } = load('pg');
    connection.options += ' -c client_min_messages=error';
    const connect = async () => {
        const client = new Client(connection);
        client.on('error', () => undefined);
        await client.connect();
        return client;
    };
    const client = await connect();
    const ask = async (text, ...values) => (await client.query({ text, values, rowMode: 'array' })).rows[0][0];

    await pawl.withContext(client, { processor: 'web', correlationId: 'request 17' }, async () => {
        equal(await pawl.fire(client, 'orders', 1, 'pay', { metadata: { by: 'card' } }), 'paid',
            'fire returns the state');
        await client.query("update orders set state = 'paid' where id = 2");
    });
    equal(await ask("select string_agg(processor || ' ' || correlation_id, ',') from orders_transitions"
        + " where to_state = 'paid'"), 'web request 17,web request 17', 'a context is that of the transaction');
    equal(await pawl.fire(client, 'lines', ['1', 'x'], 'pay'), 'paid', 'a key of several columns is an array');
    let error = await failure(pawl.fire(client, 'docs', doc, 'send'));
    ok(error instanceof pawl.NoSuchTransition, 'PW001 has a type', error);
    equal([error.sqlstate, error.table, error.column, error.constraint], ['PW001', 'docs', 'state', 'typescript'],
        'with the fields of the error');
    ok(error.hint.includes('pay') && error.message.includes('HINT: ') && error.cause, 'and its hint', error);
    error = await failure(pawl.withContext(client, { processor: 'web' }, async () => {
        await client.query("update orders set note = 'lost' where id = 3");
        await client.query("update orders set state = 'sent' where id = 3");
    }));
    ok(error instanceof pawl.NoSuchTransition, 'a check violation of a machine has the type of its code', error);
    equal([error.sqlstate, await ask('select note from orders where id = 3')], ['23514', 'a note'],
        'and undoes the transaction');
    ok(await failure(pawl.fire(client, 'orders', 1, 'fly')) instanceof pawl.UnknownObject, 'an unknown event has one');
    equal((await failure(pawl.fire(client, 'missing', 1, 'pay'))).constructor, pawl.PawlError,
        'a missing table is a PawlError');
    const lost = await connect();
    await client.query('select pg_terminate_backend($1)', [lost.processID]);
    ok(await failure(pawl.fire(lost, 'orders', 1, 'send')) instanceof pawl.ConnectionLost,
        'so has a connection that is lost');

    // The same lists as in C++.
    const codes = [...readFileSync(`${top}/src/core/sqlstate.def`, 'utf8')
        .matchAll(/^PAWL_SQLSTATE\("(\w+)", (\w+), "(.*)"\)/gm)];
    equal(Object.fromEntries(Object.entries(pawl.bySqlstate).map(([code, kind]) => [code, kind.name.toLowerCase()])),
        Object.fromEntries(codes.map(([, code, name]) => [code, name.replaceAll('_', '')])),
        'each code of class PW has a type of the same name');
    const source = readFileSync(`${top}/client/typescript/src/errors.ts`, 'utf8');
    equal(codes.filter(([, code, , meaning]) => !source.includes(`/** ${code}: ${meaning}. */`)), [],
        'and the same meaning');
    equal(pawl.transient, Object.fromEntries([...readFileSync(`${top}/src/core/transient.def`, 'utf8')
        .matchAll(/^PAWL_TRANSIENT\("(\w+)", (\w+)/gm)].map(([, prefix, repeat]) => [prefix, repeat !== 'never'])),
        'the same codes are transient');
    equal(['40001', '40002', '57014', '57P04', '23505', ''].map(pawl.isTransient),
        [true, false, true, false, false, false], 'by the longest prefix');

    // The examples of the README name what there is.
    const examples = [...readFileSync(`${top}/client/typescript/README.md`, 'utf8')
        .matchAll(/^```ts\n(.*?)^```/gms)].map(([, text]) => text);
    for (const example of examples) {
        const names = [...example.matchAll(/\bpawl\.(\w+)/g)].map(([, name]) => name);
        equal(names.filter((name) => !(name in pawl)), [], 'an example of the README names what there is');
    }
    ok(examples.length > 2, 'there are such examples');

    // Packs
    const after = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
    const run = async (worker, statement, ...values) => {
        const running = worker.run([]);
        let done = false;
        for (const end = Date.now() + 30_000; !(done = await ask(statement, ...values)) && Date.now() < end;)
            await after(50);
        worker.stop();
        await running;
        ok(done, 'it works, and ends when it is stopped', worker.counts);
    };

    await client.query(`select pawl_dag.define_template('{"name": "ts_invoice", "namespace": "ts", "steps": [
        {"name": "add"}, {"name": "send", "dependencies": ["add"], "handler_options": {"to": "printer"}}]}')`);
    const task = await pawl.startTask(client, 'ts_invoice', { order: 4 }, { namespace: 'ts', identityKey: '4' });
    equal((await failure(pawl.startTask(client, 'ts_invoice', { order: 4 }, { namespace: 'ts', identityKey: '4' })))
        .sqlstate, '23505', 'a second task with the key is rejected');
    const steps = new pawl.Worker({ connection, source: new pawl.Steps('ts') });
    steps.on('add', (job) => ({ sum: job.context.order + 1 }));
    steps.on('send', (job) => ({ sum: job.inputs.add.result.sum, to: job.options.to, token: job.token > 0 }));
    await run(steps, "select state = 'complete' from pawl_dag.tasks where task_uuid = $1", task);
    equal(await ask("select result from pawl_dag.steps where task_uuid = $1 and name = 'send'", task),
        { sum: 5, to: 'printer', token: true }, 'a step gets inputs and options');

    await client.query(`select pawl_bulk.define('{"name": "ts", "track_row_data": true,
        "steps": [{"name": "ts_book", "handler": "ts"}]}')`);
    const operation = await pawl.submitRows(client, 'ts', Array.from({ length: 20 }, (_, n) => ({ n })));
    const rows = new pawl.Worker({ connection, source: new pawl.OperationRows(), batch: 7 });
    rows.on('ts_book', (job) => {
        if (job.context.n % 5 === 0) throw new Error('no credit');
    });
    await run(rows, "select (pawl_bulk.advance(1000)).done >= 0 and status like 'Completed%' from pawl_bulk.operations"
        + ' where operation = $1', operation);
    equal(await ask("select string_agg(state || ' ' || n, ', ' order by state) from (select state, count(*) n"
        + ' from pawl_bulk.records where operation = $1 group by 1) x', operation), 'Completed 16, Failed 4',
    'rows are done or fail, and none stops another');
    equal([rows.counts.succeeded, rows.counts.failed, rows.counts.dropped], [16, 4, 0], 'as the worker counts');

    await client.query(`select pawl_saga.define('{"flow": "linear", "name": "ts", "children": [
        {"task": "flight", "queue": "ts", "requires": ["who"], "provides": "pnr"},
        {"task": "car", "queue": "ts", "requires": ["pnr"]}]}')`);
    const flow = await pawl.startFlow(client, 'ts', { who: 'Ada' });
    const seen = [];
    const tasks = new pawl.Worker({ connection, source: new pawl.FlowTasks('ts') });
    tasks.on('flight', (job) => `pnr of ${job.context.who}`);
    tasks.onRevert('flight', (job) => void seen.push(job.context.who, job.inputs.result));
    tasks.on('car', (job) => {
        throw new pawl.PermanentFailure(`no car for ${job.context.pnr}`);
    });
    await run(tasks, "select state = 'REVERTED' from pawl_saga.flows where flow_uuid = $1", flow);
    equal(seen, ['Ada', 'pnr of Ada'], 'a failure reverts what was done, with its arguments and result');
    equal(await ask("select pawl_saga.errors($1) #>> '{car,message}'", flow), 'no car for pnr of Ada',
        'the failure is kept');
    error = await failure(new pawl.Worker({
        connection, source: new pawl.Table('docs', { success: 'pay', failure: 'send' }),
    }).run([]));
    equal(error.sqlstate, '55000', 'a table without owners cannot be worked on');
});
