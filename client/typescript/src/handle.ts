/** Runs handlers, and makes results of what they return or throw. */
import { errorOf, Failure, PawlError, PermanentFailure, RetryLater } from './errors.js';
import type { Job, Result, Work } from './sources.js';

export type Handler = (job: Job) => unknown;

export interface Handlers {
    execute: Map<string, Handler>;
    revert: Map<string, Handler>;
}

const DEEPEST = 512;  // levels of a result
const LONGEST = 64 * 1024 * 1024;  // characters

function depthOf(value: unknown): number {
    let depth = 0;
    for (let level = [value]; level.length > 0; ++depth) {
        const inner = level.filter((one): one is object => typeof one === 'object' && one !== null);
        if (inner.length === 0) return depth;
        level = inner.flatMap((one) => Object.values(one));
    }
    return depth;
}

/** Runs the handler of a job. Whatever it throws is this job's. */
export async function handle(handlers: Handlers, work: Work): Promise<Result> {
    const { job } = work;
    const failed = (outcome: Result['outcome'], message: string, more: object = {}): Result => ({
        work,
        // a handler that was asked to stop has not failed, unless it says that no other attempt can succeed
        outcome: outcome === 'failure' && job.stop.aborted ? 'given_back' : outcome,
        value: { message, ...more },
    });
    if (work.problem) return failed('permanent_failure', work.problem);
    const reverts = job.action === 'revert';
    const known = reverts ? handlers.revert : handlers.execute;
    const handler = known.get(job.handler) ?? known.get('');
    if (!handler && reverts && handlers.execute.has(job.handler))
        return { work, outcome: 'success', value: null };  // there is nothing to undo
    if (!handler) return failed('failure', `worker has no handler "${job.handler}"`);
    let value: unknown;
    try {
        value = (await handler(job)) ?? null;
    } catch (caught) {
        const message = caught instanceof Error ? caught.message : String(caught);
        if (caught instanceof PermanentFailure) return failed('permanent_failure', message);
        if (caught instanceof Failure) return failed('failure', message, { type: caught.type });
        if (caught instanceof RetryLater) return { ...failed('failure', message), retryAfter: caught.after };
        const error = errorOf(caught);
        const sqlstate = error instanceof PawlError && error.sqlstate ? { sqlstate: error.sqlstate } : {};
        return failed('failure', error.message, sqlstate);
    }
    try {
        if (depthOf(value) <= DEEPEST && (JSON.stringify(value)?.length ?? Infinity) <= LONGEST)
            return { work, outcome: 'success', value };
    } catch (caught) {
        return failed('permanent_failure', `the result cannot be reported: ${caught}`);
    }
    return failed('permanent_failure', 'the result cannot be reported: it is no JSON, too long or nested too deep');
}
