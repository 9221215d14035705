/** Runs handlers, and makes results of what they return or throw. */
import { errorOf, Failure, PawlError, PermanentFailure, RetryLater } from './errors.js';
import { type Job, LONGEST, type Result, type Work } from './sources.js';

export type Handler = (job: Job) => unknown;

export interface Handlers {
    execute: Map<string, Handler>;
    revert: Map<string, Handler>;
}

const DEEPEST = 512;  // levels of a result
const LONGEST_WAIT = 1e9;  // seconds; longer ones overflow a timestamp
const UNSTORABLE = /(?:^|[^\\])(?:\\\\)*\\u(?:0000|d[89a-f][0-9a-f]{2})/;  // in JSON, which escapes lone surrogates

const LONGEST_TEXT = 64 * 1024;  // characters

/** The text of an error or another value, as PostgreSQL can store it. Never throws: whatever a value does when it is
 * asked for its text, another attempt may still succeed. */
function textOf(value: unknown): string {
    for (const take of [(one: any) => (one instanceof Error ? one.message : one), (one: any) => one.name ?? '']) {
        try {
            const text = String(take(value)).slice(0, LONGEST_TEXT).replace(/\0|[\ud800-\udfff]/gu, '\ufffd');
            if (text) return text;
        } catch {
            // it has none
        }
    }
    return 'a thrown value without a text';
}

type Extent = [size: number, levels: number];

/** The least characters that a result has as JSON, and its levels. Throws what is wrong with it: before
 * JSON.stringify, which takes for ever to write bytes or values that are shared by many, and writes NaN as null. known:
 * what is measured; null: not yet. */
function measure(given: any, key: string, level: number, known: Map<unknown, Extent | null>): Extent {
    if (ArrayBuffer.isView(given) || given instanceof ArrayBuffer) throw new TypeError('it has bytes');
    const value = typeof given === 'object' && typeof given?.toJSON === 'function' ? given.toJSON(key) : given;
    if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError(`it has the number ${value}`);
    if (typeof value !== 'object' || value === null) return [typeof value === 'string' ? value.length + 2 : 1, 0];
    const found = known.get(value);
    if (found === null) throw new TypeError('it is circular');
    let [size, levels] = found ?? [2, 0];
    if (level + Math.max(levels, 1) > DEEPEST) throw new RangeError('it is nested deeper than 512 levels');
    if (found) return found;
    known.set(value, null);
    const names = Array.isArray(value) ? null : Object.keys(value);
    for (let i = 0; i < (names ?? value).length; ++i) {
        const name = names?.[i] ?? '';
        const [innerSize, innerLevels] = measure(value[names ? name : i], name, level + 1, known);
        size += name.length + innerSize + 1;
        levels = Math.max(levels, innerLevels);
        if (size > LONGEST) throw new RangeError('it is longer than 64 MiB');
    }
    known.set(value, [size, levels + 1]);
    return [size, levels + 1];
}

function success(work: Work, value: unknown): Result {
    let problem = 'it is no JSON';
    try {
        measure(value, '', 0, new Map());
        const text = JSON.stringify(value) as string | undefined;
        if (text && text.length <= LONGEST && !UNSTORABLE.test(text)) return { work, outcome: 'success', value: text };
        if (text) problem = 'it is longer than 64 MiB, or has a NUL or a lone surrogate, which PostgreSQL cannot store';
    } catch (caught) {
        problem = textOf(caught);
    }
    return failed(work, 'permanent_failure', `the result cannot be reported: ${problem}`);
}

function failed(work: Work, outcome: Result['outcome'], message: unknown, more: object = {}): Result {
    // a handler that was asked to stop has not failed, unless it says that no other attempt can succeed
    const isStopped = outcome === 'failure' && work.abort.signal.aborted;
    return { work, outcome: isStopped ? 'given_back' : outcome, value: { message: textOf(message), ...more } };
}

/** How long to wait, in seconds; empty, which leaves it to the policy, if it is no time. */
function secondsOf(after: unknown): { retryAfter?: number } {
    const seconds = after instanceof Date ? (after.getTime() - Date.now()) / 1000 : Number(after);
    return Number.isNaN(seconds) ? {} : { retryAfter: Math.min(Math.max(seconds, 0), LONGEST_WAIT) };
}

function failureOf(work: Work, caught: unknown): Result {
    try {
        if (caught instanceof PermanentFailure) return failed(work, 'permanent_failure', caught);
        if (caught instanceof Failure) return failed(work, 'failure', caught, { type: textOf(caught.type) });
        if (caught instanceof RetryLater)
            return Object.assign(failed(work, 'failure', caught), secondsOf(caught.after));
        const error = errorOf(caught);
        const sqlstate = error instanceof PawlError && error.sqlstate ? { sqlstate: textOf(error.sqlstate) } : {};
        return failed(work, 'failure', error, sqlstate);
    } catch {
        return failed(work, 'failure', caught);  // an attribute that cannot be read is left out
    }
}

/** A callback that neither throws nor rejects: a log whose pipe is closed costs no lease. */
export function guarded<T>(callback?: (one: T) => unknown, tell?: (why: string) => void): (one: T) => void {
    return (one) => void (async () => callback?.(one))().catch((caught) => tell?.(textOf(caught)));
}

/** Runs the handler of a job. Whatever it does is this job's: the promise is never rejected. */
export async function handle(handlers: Handlers, work: Work): Promise<Result> {
    const { job } = work;
    if (work.problem) return failed(work, 'permanent_failure', work.problem);
    const reverts = job.action === 'revert';
    const known = reverts ? handlers.revert : handlers.execute;
    const handler = known.get(job.handler) ?? known.get('');
    if (!handler && reverts && handlers.execute.has(job.handler))
        return { work, outcome: 'success', value: 'null' };  // there is nothing to undo
    if (!handler) return failed(work, 'failure', `worker has no handler "${job.handler}"`);
    let value: unknown;
    try {
        value = (await handler({ ...job })) ?? null;  // what it does to its fields does not change what is reported
    } catch (caught) {
        return failureOf(work, caught);
    }
    return success(work, value);
}
