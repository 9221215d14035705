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
    for (const statement of [
        "create table jobs (id integer primary key, state text not null default 'ready', owner text,"
            + ' token bigint not null default 0)',
        "select pawl.define('job', E'stateDiagram-v2\\n[*] --> ready\\nready --> running : start\\n"
            + "running --> done : finish\\nrunning --> ready : fail\\nclass running owned')",
        "select pawl.enforce('jobs', 'state', 'job')",
        "select pawl.enable_queue('jobs', owner => 'owner', token => 'token')",
        "select pawl.set_claiming('jobs', claim => '{start}')",
    ]) await client.query(statement);
    error = await failure(new pawl.Worker({
        connection, source: new pawl.Table('jobs', { success: 'finnish', failure: 'fail' }),
    }).run([]));
    equal([error.sqlstate, /has no event "finnish"/.test(error.message)], ['PW008', true],
        'an event that the machine does not have is found before a row is claimed');

    // Whatever a handler, what it throws or a callback does ends that job alone, with a message; the worker goes on.
    class NoMessage extends Error {
        get message() {
            throw new Error('no message');
        }
    }
    const circular = { deep: [{}] };
    circular.deep[0].self = circular;
    const shared = Array.from({ length: 60 }).reduce((inner) => [inner, inner], []);
    const thrown = (error) => () => {
        throw error;
    };
    const later = (after) => thrown(new pawl.RetryLater('x', after));
    const trap = () => {
        throw new Error('trap');
    };
    const unstorable = 'it is longer than 64 MiB, or has a NUL or a lone surrogate, which PostgreSQL cannot store';
    const odd = {  // what a handler does, and the error: its message, type and wait; a failure is retried
        getter: [thrown(new NoMessage()), 'Error'],
        bare: [thrown(Object.create(null)), 'a thrown value without a text'],
        proxy: [thrown(new Proxy({}, { get: trap, getPrototypeOf: trap })), 'a thrown value without a text'],
        symbol: [thrown(Symbol('s')), 'Symbol(s)'],
        nothing: [thrown(undefined), 'undefined'],
        big: [thrown(Object.assign(new Error('x'), { message: 5n })), '5'],
        code: [thrown(Object.assign(new Error('x'), { code: Symbol('c') })), 'x'],
        empty: [thrown(new RangeError()), 'RangeError'],
        nul: [thrown(new Error('a\0b')), 'a\ufffdb'],
        surrogates: [thrown(new Error('\ud800 \ud83d\ude00')), '\ufffd \u{1f600}'],
        type: [thrown(new pawl.Failure(7n, 'x')), 'x', '7'],
        'type of text': [thrown(new pawl.Failure('c\0', 'x')), 'x', 'c\ufffd'],
        long: [thrown(new Error('x'.repeat(1e7))), 'x'.repeat(65_536)],
        wait: [later('7'), 'x', null, 7],
        'big wait': [later(8n), 'x', null, 8],
        infinite: [later(Infinity), 'x', null, 1e9],
        past: [later(new Date(0)), 'x', null, 0],
        nan: [later(NaN), 'x'],
        'no wait': [later(Symbol('s')), 'x'],
        renamed: [(job) => {
            Object.assign(job, { key: 'another', token: 0, stop: null });
            throw new Error('renamed');
        }, 'renamed'],
    };
    const oddResults = {  // permanent failures
        circular: [circular, 'it is circular'],
        shared: [shared, 'it is longer than 64 MiB'],
        bytes: [{ file: Buffer.alloc(60_000_000) }, 'it has bytes'],
        'big number': [[5n], 'Do not know how to serialize a BigInt'],
        'no number': [[NaN], 'it has the number NaN'],
        infinity: [{ a: -Infinity }, 'it has the number -Infinity'],
        method: [{ toJSON: () => undefined }, 'it is no JSON'],
        'a function': [() => 1, 'it is no JSON'],
        'a trap': [new Proxy({}, { ownKeys: trap }), 'trap'],
        zero: [{ '\0': 1 }, unstorable],
        alone: [['\ude00'], unstorable],
        huge: [['x'.repeat(64 << 20)], 'it is longer than 64 MiB'],
        deep: [JSON.parse('['.repeat(9_000) + ']'.repeat(9_000)), 'it is nested deeper than 512 levels'],
    };
    const good = {
        pair: '\ud83d\ude00', text: '\\u0000', date: new Date(0), 'with itself': [[1], [1]], none: undefined,
    };
    await client.query(`select pawl_dag.define_template('{"name": "ts_odd", "namespace": "ts_odd",
        "identity_strategy": "always_unique",
        "steps": [{"name": "s", "handler": "h", "retry": {"max_attempts": 3}}]}')`);
    const startOdd = (name) => pawl.startTask(client, 'ts_odd', { name }, { namespace: 'ts_odd' });
    const names = [...Object.keys(odd), ...Object.keys(oddResults), ...Object.keys(good)];
    for (const name of names) await startOdd(name);
    const oddSteps = new pawl.Worker({ connection, source: new pawl.Steps('ts_odd'), batch: 100 });
    oddSteps.on('h', (job) => {
        const { name } = job.context;
        if (name in odd) return odd[name][0](job);
        return name in good ? good[name] : oddResults[name][0];
    });
    await run(oddSteps, "select count(*) = $1 from pawl_dag.steps s join pawl_dag.tasks t using (task_uuid)"
        + " where t.namespace = 'ts_odd' and s.state in ('waiting_for_retry', 'error', 'complete')", names.length);
    const have = await ask("select jsonb_object_agg(t.context ->> 'name', jsonb_build_array(s.state, coalesce(s.error,"
        + " s.result))) from pawl_dag.steps s join pawl_dag.tasks t using (task_uuid) where t.namespace = 'ts_odd'");
    for (const [name, [, message, type = null, wait = null]] of Object.entries(odd)) {
        const [state, error] = have[name];
        equal([state, error?.message, error?.type ?? null, error?.retry_after ?? null],
            ['waiting_for_retry', message, type, wait], `what a handler throws is retried: ${name}`);
    }
    for (const [name, [, message]] of Object.entries(oddResults))
        equal(have[name], ['error', { message: `the result cannot be reported: ${message}`, permanent: true }],
            `a result that cannot be reported fails for good: ${name}`);
    equal(Object.keys(good).map((name) => have[name]),
        Object.values(good).map((value) => ['complete', JSON.parse(JSON.stringify(value ?? null))]),
        'other results of the batch count');
    equal([oddSteps.counts.failed, oddSteps.counts.succeeded], [names.length - 5, 5], 'each of them is counted once');

    const messages = [];
    let goOn;
    const waiting = new Promise((resolve) => (goOn = resolve));
    const [kept, cancelled] = [await startOdd('kept'), await startOdd('cancelled')];
    const closedLog = new pawl.Worker({
        connection: { ...connection, application_name: 'ts_closed_log' }, source: new pawl.Steps('ts_odd'), lease: 1000,
        onMessage: async (text) => {
            messages.push(text);
            throw new Error('the log is closed');
        },
        onDropped: thrown(Object.create(null)),
    });
    closedLog.on('h', () => waiting);
    const working = closedLog.run([]);
    const until = async (statement, ...values) => {
        for (const end = Date.now() + 30_000; Date.now() < end; await after(50))
            if (await ask(statement, ...values)) return true;
        return false;
    };
    await until("select count(*) = 2 from pawl_dag.steps where state = 'in_progress' and task_uuid in ($1, $2)", kept,
        cancelled);
    await client.query('select pawl_dag.cancel_task($1)', [cancelled]);
    const heartbeats = " from pg_stat_activity where application_name = 'ts_closed_log'"
        + " and query ~ 's.token FROM pawl'";
    ok(await until(`select exists (select ${heartbeats})`), 'the heartbeat has a session');
    const pid = await ask(`select pid ${heartbeats}`);
    await client.query('select pg_terminate_backend($1)', [pid]);
    ok(await until(`select exists (select ${heartbeats} and pid <> $1)`, pid),
        'the heartbeat goes on where it cannot be logged that its session was lost');
    goOn(1);
    await until("select state = 'complete' from pawl_dag.tasks where task_uuid = $1", kept);
    closedLog.stop();
    await working;
    equal([closedLog.counts.succeeded, closedLog.counts.dropped], [1, 1],
        'callbacks that throw end neither the worker nor its jobs');
    equal(['heartbeat failed: ', 'onDropped failed: a thrown value without a text'].map((text) =>
        messages.filter((one) => one.startsWith(text)).length), [1, 1], 'and their failure is a message');
});
