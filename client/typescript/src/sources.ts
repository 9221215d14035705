/** Where a worker's work comes from: steps of workflows, tasks of flows, rows of bulk operations, rows of a table. */
import type { Client } from 'pg';

import { PawlError, PlacedElsewhere, translated } from './errors.js';

/** One piece of work, as its handler gets it. Of a step: context, inputs (the results of the parents by name) and
 * options. Of a task of a flow: context has the arguments, action is execute or revert, and inputs has result, failure
 * and failures. Of a row of an operation: context has the row, options the operation's metadata, action is start or
 * check. Of a row of a table: context is the row. */
export interface Job {
    key: string;
    name: string;
    handler: string;
    /** The fencing token. */
    token: number;
    /** The task, flow or operation. */
    parent: string;
    context: any;
    inputs: any;
    options: any;
    attempt: number;
    action: string;
    traceparent?: string;
    tracestate?: string;
    /** Aborted when the result will not count any more. */
    stop: AbortSignal;
}

/** A job in flight. */
export interface Work {
    job: Job;
    abort: AbortController;
    processor: string;
    claimedAt: number;
    /** Why it cannot be handled. */
    problem: string;
}

/** The longest result, in characters of its JSON. */
export const LONGEST = 64 * 1024 * 1024;

/** What became of a job. value: of a success the result as JSON, otherwise the error. */
export interface Result {
    work: Work;
    outcome: 'success' | 'failure' | 'permanent_failure' | 'given_back';
    value: any;
    retryAfter?: number;
}

type Row = Record<string, any>;

/** What names a job in flight: its key and its fencing token. */
export const idOf = (key: string, token: unknown): string => `${key} ${token}`;
export const idOfWork = (work: Work): string => idOf(work.job.key, work.job.token);

function workOf(row: Row, processor: string): Work {
    const abort = new AbortController();
    const work: Work = {
        job: {
            ...{ parent: '', context: null, inputs: null, options: null, attempt: 1, action: '', ...row },
            key: row.key, name: row.name, handler: row.handler, token: Number(row.token), stop: abort.signal,
        },
        abort,
        processor,
        claimedAt: performance.now(),
        problem: '',
    };
    // one by one: what one job contains does not stop the others
    for (const name of ['context', 'inputs', 'options'] as const) {
        try {
            work.job[name] = row[name] === undefined || row[name] === null ? null : JSON.parse(row[name]);
        } catch (caught) {
            work.problem = `its ${name} cannot be read: ${caught}`;
        }
    }
    return work;
}

/** The first of the results that one statement can report: of one processor, and not too long together. */
export function firstPart(results: Result[]): Result[] {
    const part: Result[] = [];
    let size = 0;
    for (const one of results) {
        if (one.work.processor !== results[0]?.work.processor) continue;
        size += one.outcome === 'success' ? one.value.length : 0;
        if (part.length === 1000 || (part.length > 0 && size > LONGEST)) break;
        part.push(one);
    }
    return part;
}

/** An element of a report of a success: its fields, and the result, which is JSON already. */
const withResult = (fields: Row, result: string): string =>
    `${JSON.stringify(fields).slice(0, -1)},"result":${result}}`;

/** The statements of one kind of work. Claims return the fields of a Job, JSON as text; reports the keys that count;
 * tokens all that the processor owns. */
export abstract class Source {
    /** $1: the processor, $2: how many, $3: the lease, $4: the queue. */
    protected abstract claimStatement: string;
    /** Of a processor, the work that a lost session had claimed; null: it cannot be found, and its leases expire. */
    protected ownedStatement: string | null = null;
    protected reportStatement = '';
    protected abstract tokensStatement: string;

    constructor(
        readonly relation: string,
        readonly queue: string | null,
    ) {}

    /** Looks at what it is to work on. */
    async prepare(_client: Client): Promise<void> {}

    /** Throws PlacedElsewhere if it follows its queue, and the rows are not in this database. */
    async requireRows(_client: Client): Promise<void> {}

    /** JSON. */
    protected abstract element(one: Result): string;

    async claim(client: Client, processor: string, lease: string, limit: number): Promise<Work[]> {
        const { rows } = await client.query(this.claimStatement, [processor, limit, lease, this.queue]);
        return rows.map((row: Row) => workOf(row, processor));
    }

    async owned(client: Client, processor: string): Promise<Work[] | null> {
        if (!this.ownedStatement) return null;
        const { rows } = await client.query(this.ownedStatement, [processor]);
        return rows.map((row: Row) => workOf(row, processor));
    }

    /** The ids of the results that count. A repeated report is accepted again. */
    async report(client: Client, processor: string, results: Result[], _inDoubt: boolean): Promise<Set<string>> {
        const reports = `[${results.map((one) => this.element(one)).join(',')}]`;
        const { rows } = await client.query(this.reportStatement, [reports, processor]);
        const keys = new Set(this.accepted(rows).map((row) => row.key));
        return new Set(results.filter((one) => keys.has(one.work.job.key)).map((one) => idOfWork(one.work)));
    }

    protected accepted(answers: Row[]): Row[] {
        return answers;
    }

    async tokens(client: Client, processor: string): Promise<Set<string>> {
        const { rows } = await client.query(this.tokensStatement, [processor]);
        return new Set(rows.map((row: Row) => idOf(row.key, row.token)));
    }
}

const stepColumns = (inputs: string): string =>
    'SELECT c.step_uuid::text AS key, c.name, c.handler, c.token, c.task_uuid::text AS parent,' +
    ` ${inputs}.context::text, ${inputs}.parents::text AS inputs, c.handler_options::text AS options,` +
    ` c.attempts AS attempt, ${inputs}.traceparent, ${inputs}.tracestate FROM `;

/** Steps of workflows (pawl_dag). queue: the namespace. */
export class Steps extends Source {
    /** Whether the queue can move to another database. */
    placed = false;
    protected claimStatement = stepColumns('c') + 'pawl_dag.claim($1, $4, $2::integer, $3::interval, 100) c';
    protected override ownedStatement =
        stepColumns('i') +
        'pawl_dag.steps c CROSS JOIN LATERAL pawl_dag.step_inputs(ARRAY[c.task_uuid], ARRAY[c.step_uuid]) i' +
        " WHERE c.worker_uuid = $1::uuid AND c.state = 'in_progress' AND c.lease_until > clock_timestamp()";
    protected override reportStatement =
        "SELECT r.step_uuid::text AS key, r.ok, coalesce(r.problem, '') AS problem" +
        ' FROM pawl_dag.report($1::jsonb, $2) r';
    protected tokensStatement =
        'SELECT s.step_uuid::text AS key, s.token FROM pawl_dag.steps s WHERE s.worker_uuid = $1::uuid';

    constructor(queue = 'default') {
        super('pawl_dag.steps', queue);
    }

    override async prepare(client: Client): Promise<void> {
        await this.requireRows(client);
    }

    override async requireRows(client: Client): Promise<void> {
        if (!this.placed) return;
        await translated(
            client.query(
                // until they leave, results can be reported
                "SELECT pawl.require_here('dag', $1::text) WHERE NOT EXISTS (SELECT FROM pawl.departure d" +
                    " WHERE d.kind = 'dag' AND d.namespace = $1::text AND d.phase = 'closed')",
                [this.queue],
            ),
        );
    }

    protected override accepted(answers: Row[]): Row[] {
        const moved = answers.find((row) => this.placed && row.problem.startsWith('PW009'));
        if (moved) throw new PlacedElsewhere(moved.problem, 'PW009');
        return answers.filter((row) => row.ok);
    }

    protected element({ work: { job }, outcome, value, retryAfter }: Result): string {
        const element = { task_uuid: job.parent, step_uuid: job.key, token: job.token };
        if (outcome === 'success') return withResult(element, value);
        const permanent = outcome === 'permanent_failure' ? { permanent: true } : {};
        const later = retryAfter === undefined ? {} : { retry_after: retryAfter };
        return JSON.stringify({ ...element, error: { ...value, ...permanent, ...later } });
    }
}

const flowColumns =
    "SELECT c.flow_uuid || ' ' || c.node AS key, c.name, c.handler, c.token, c.flow_uuid::text AS parent," +
    ' c.arguments::text AS context, c.action, c.traceparent, c.tracestate,' +
    " jsonb_build_object('result', c.result, 'failure', c.failure, 'failures', c.failures)::text AS inputs FROM ";

/** Tasks of flows (pawl_saga). */
export class FlowTasks extends Source {
    protected claimStatement = flowColumns + 'pawl_saga.claim($1, $4, $2::integer, $3::interval) c';
    protected override ownedStatement =
        flowColumns +
        "(SELECT t.flow_uuid, t.node, t.name, CASE t.state WHEN 'RUNNING' THEN 'execute' ELSE 'revert' END AS action," +
        " CASE t.state WHEN 'RUNNING' THEN t.execute ELSE coalesce(t.revert, t.execute) END AS handler, t.token," +
        ' pawl_saga.arguments(t.flow_uuid, t.node) AS arguments, t.result, t.failure,' +
        " CASE WHEN t.state = 'REVERTING' THEN pawl_saga.failures(t.flow_uuid) END AS failures," +
        ' f.traceparent, f.tracestate FROM pawl_saga.tasks t JOIN pawl_saga.flows f USING (flow_uuid)' +
        " WHERE t.worker = $1 AND t.state IN ('RUNNING', 'REVERTING') AND t.lease_until > clock_timestamp()) c";
    protected override reportStatement =
        "SELECT r.flow_uuid || ' ' || r.node AS key FROM pawl_saga.report($1::jsonb, $2) r WHERE r.ok";
    protected tokensStatement =
        "SELECT t.flow_uuid || ' ' || t.node AS key, t.token FROM pawl_saga.tasks t WHERE t.worker = $1";

    constructor(queue = 'default') {
        super('pawl_saga.tasks', queue);
    }

    protected element({ work: { job }, outcome, value }: Result): string {
        const element = { flow_uuid: job.parent, node: Number(job.key.split(' ')[1]), token: job.token };
        if (outcome === 'success') return withResult(element, value);
        const permanent = outcome === 'permanent_failure' ? { type: 'permanent' } : {};
        return JSON.stringify({ ...element, failure: { ...value, ...permanent } });
    }
}

const rowKey = (alias: string): string =>
    `${alias}.operation || ' ' || ${alias}.row_number || ' ' || ${alias}.step_index AS key`;

/** Rows of bulk operations (pawl_bulk); a handler is called by the name of the step. For action check it returns true
 * if the row is done, and otherwise it is not yet. queue: null: every queue. */
export class OperationRows extends Source {
    protected claimStatement =
        `SELECT ${rowKey('c')}, c.step_name AS name, c.step_name AS handler, c.token, c.operation::text AS parent,` +
        ' c.data::text AS context, c.metadata::text AS options, c.tries + 1 AS attempt, c.kind AS action,' +
        ' c.traceparent, c.tracestate FROM pawl_bulk.claim($1, $4, $2::integer, $3::interval) c';
    protected override reportStatement =
        `SELECT ${rowKey('r')} FROM pawl_bulk.report($1::jsonb, $2) r WHERE r.ok`;
    protected tokensStatement = `SELECT ${rowKey('w')}, w.token FROM pawl_bulk.work w WHERE w.worker = $1`;

    constructor(queue: string | null = null) {
        super('pawl_bulk.work', queue);
    }

    protected element({ work: { job }, outcome, value }: Result): string {
        const [operation, number, step] = job.key.split(' ');
        const good = outcome === 'success';
        const checked = good ? (value === 'true' ? 'done' : 'pending') : 'failed';
        return JSON.stringify({
            operation: operation ?? '',
            row_number: Number(number),
            step_index: Number(step),
            token: job.token,
            result: job.action === 'check' ? checked : good ? 'ok' : 'fail',
            message: good ? '' : value.message,
        });
    }
}

const fireAll =
    'SELECT f.key FROM pawl.fire_many($1::text::regclass, $2::text[], $3, processor => $4,' +
    ' tokens => $5::bigint[], metadata => $6::jsonb) f WHERE f.ok';
const fireEach =
    'SELECT f.key FROM unnest($2::text[], $5::bigint[], $6::text[]) r(key, token, notes)' +
    ' CROSS JOIN LATERAL pawl.fire_many($1::text::regclass, ARRAY[r.key], $3, processor => $4,' +
    ' tokens => ARRAY[r.token], metadata => r.notes::jsonb) f WHERE f.ok';

/** The rows of any enforced table with an owner, a token, claim events and a key of one column. success, failure and
 * permanentFailure (default: failure) are the events that results fire; claim: the event that claims, if the machine
 * has several; handler: the name of the handler (job). A result that is an object, and the error of a failure, are the
 * metadata of the log entry. */
export class Table extends Source {
    protected claimStatement = '';
    protected tokensStatement = '';
    private reportedStatement = '';
    private knowsEvents = false;

    constructor(
        relation: string,
        private readonly events: { success: string; failure: string; permanentFailure?: string; claim?: string },
        private readonly handler = 'job',
        queue: string | null = null,
    ) {
        super(relation, queue);
    }

    override async prepare(client: Client): Promise<void> {
        const { rows } = await client.query(
            'SELECT $1::text::regclass::text AS relation, cardinality(b.key_columns) AS keys,' +
                ' quote_ident(b.key_columns[1]) AS key, quote_ident(b.owner_column) AS owner,' +
                ' quote_ident(b.token_column) AS token, quote_ident(b.lease_column) AS lease,' +
                ' quote_ident(b.attempts_column) AS attempts,' +
                ' quote_literal($2::text) AS handler, quote_nullable($3::text) AS event' +
                "  FROM pawl.binding b WHERE b.relation = $1::text::regclass AND b.claim_events <> '{}'",
            [this.relation, this.handler, this.events.claim ?? null],
        );
        const row: Row = rows[0] ?? {};
        if (rows.length !== 1 || row.keys !== 1 || row.owner === null || row.token === null)
            throw new PawlError(
                `table ${this.relation} must have one binding with claim events, an owner column, a token column and ` +
                    'a key of one column',
                '55000',
            );
        // An unknown event would be found out when the work of a row is done. Only at the start: a worker that connects
        // again has results to report.
        if (!this.knowsEvents) {
            const { success, failure, permanentFailure } = this.events;
            await client.query(
                'SELECT count(f.key) FROM unnest($2::text[]) u(event)' +
                    " CROSS JOIN LATERAL pawl.fire_many($1::text::regclass, '{}'::text[], u.event) f",
                [this.relation, [success, failure, permanentFailure ?? failure]],
            );
            this.knowsEvents = true;
        }
        const key = `c.${row.key}::text`;
        const columns =
            `SELECT ${key} AS key, ${key} AS name, ${row.handler} AS handler, c.${row.token} AS token,` +
            ` to_jsonb(c)::text AS context, ${row.attempts ? `c.${row.attempts}` : '1'}::integer AS attempt FROM `;
        const owns = `${row.relation} c WHERE c.${row.owner}::text = $1`;
        this.claimStatement =
            `${columns}pawl.claim(null::${row.relation}, ${row.event}, $1, $3::interval, $2::integer, $4::text) c`;
        this.ownedStatement = columns + owns + (row.lease ? ` AND c.${row.lease} > clock_timestamp()` : '');
        this.tokensStatement = `SELECT ${key} AS key, c.${row.token} AS token FROM ${owns}`;
        // only a result leaves the token and clears the owner
        this.reportedStatement =
            `SELECT FROM ${row.relation} c` +
            ` WHERE ${key} = $1 AND c.${row.token} = $2::bigint AND c.${row.owner} IS NULL`;
    }

    protected element(): string {
        return 'null';
    }

    override async report(client: Client, processor: string, results: Result[], inDoubt: boolean) {
        const accepted = new Set<string>();
        const { success, failure, permanentFailure = failure } = this.events;
        for (const [outcome, event] of Object.entries({ success, failure, permanent_failure: permanentFailure })) {
            const part = results.filter((one) => one.outcome === outcome);
            if (part.length === 0) continue;
            const notes = part.map(({ value }) =>
                typeof value === 'object' ? JSON.stringify(value) : value.startsWith('{') ? value : '{}');
            const same = notes.every((one) => one === notes[0]);  // then one statement writes all rows
            const { rows } = await client.query(same ? fireAll : fireEach, [
                this.relation, part.map((one) => one.work.job.key), event, processor,
                part.map((one) => one.work.job.token), same ? notes[0] : notes,
            ]);
            const keys = new Set(rows.map((row: Row) => row.key));
            for (const one of part) if (keys.has(one.work.job.key)) accepted.add(idOfWork(one.work));
        }
        for (const one of inDoubt ? results : []) {  // an earlier report may have been committed
            const { key, token } = one.work.job;
            const { rowCount } = await client.query(this.reportedStatement, [key, token]);
            if (rowCount === 1) accepted.add(idOfWork(one.work));
        }
        return accepted;
    }
}
