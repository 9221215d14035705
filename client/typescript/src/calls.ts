/** Calls in the caller's own transaction: a task begins if, and only if, the caller's changes are committed. */
import type { ClientBase } from 'pg';

import { translated } from './errors.js';

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

async function value(client: ClientBase, statement: string, values: unknown[]): Promise<string> {
    const result = await translated(client.query({ text: statement, values, rowMode: 'array' }));
    return String(result.rows[0]?.[0]);
}

/** Runs `body` in a transaction whose state changes are logged with this processor and correlation id. Errors are those
 * of this library. */
export async function withContext<T>(
    client: ClientBase,
    context: { processor?: string; correlationId?: string },
    body: (client: ClientBase) => Promise<T>,
): Promise<T> {
    return translated(
        (async () => {
            await client.query('BEGIN');
            try {
                await client.query('SELECT pawl.set_context(processor => $1, correlation_id => $2)', [
                    context.processor ?? null,
                    context.correlationId ?? null,
                ]);
                const result = await body(client);
                await client.query('COMMIT');
                return result;
            } catch (caught) {
                await client.query('ROLLBACK').catch(() => undefined);
                throw caught;
            }
        })(),
    );
}

/** Fires an event for a row of an enforced table and returns the new state. key: the value of the key, or an array for
 * a key of several columns. token: the fencing token that the row must have. */
export function fire(
    client: ClientBase,
    relation: string,
    key: unknown,
    event: string,
    options: { metadata?: Json; token?: bigint | number } = {},
): Promise<string> {
    return value(client, 'SELECT pawl.fire($1::text::regclass, $2, $3::text, $4::jsonb, token => $5::bigint)', [
        relation,
        key,
        event,
        options.metadata === undefined ? null : JSON.stringify(options.metadata),
        options.token ?? null,
    ]);
}

/** Starts a task of a workflow (pawl_dag) and returns its id. A second one with the same identityKey is rejected
 * (23505). */
export function startTask(
    client: ClientBase,
    name: string,
    context: Json = {},
    options: {
        namespace?: string; version?: string; priority?: number; identityKey?: string; correlationId?: string;
    } = {},
): Promise<string> {
    return value(
        client,
        'SELECT pawl_dag.start_task($1::text, $2::jsonb, namespace => $3::text, version => $4::text,' +
            ' priority => $5::integer, identity_key => $6::text, correlation_id => $7::uuid)::text',
        [
            name, JSON.stringify(context), options.namespace ?? 'default', options.version ?? null,
            options.priority ?? 0, options.identityKey ?? null, options.correlationId ?? null,
        ],
    );
}

/** Submits rows as a bulk operation (pawl_bulk) and returns its id. */
export function submitRows(client: ClientBase, definition: string, rows: Json[]): Promise<string> {
    const statement = 'SELECT s.operation::text FROM pawl_bulk.submit($1::text, rows => $2::jsonb) s';
    return value(client, statement, [definition, JSON.stringify(rows)]);
}

/** Starts a flow of a saga (pawl_saga) and returns its id. */
export function startFlow(client: ClientBase, name: string, inputs: Json = {}): Promise<string> {
    return value(client, 'SELECT pawl_saga.start($1::text, $2::jsonb)::text', [name, JSON.stringify(inputs)]);
}

/** Sends a signal to a flow and returns its id. */
export function signalFlow(client: ClientBase, flow: string, signal: string, payload: Json = null): Promise<string> {
    const statement = 'SELECT pawl_saga.signal($1::uuid, $2::text, $3::jsonb)::text';
    return value(client, statement, [flow, signal, JSON.stringify(payload)]);
}
