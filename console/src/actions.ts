// One action on many tasks or operations: requests that each do a bounded part, one after the other, until the end.
import { Problem, type Unavailable } from "./api";

export interface Outcome {
    id: string;
    state: string | null;
    outcome: "changed" | "unchanged" | "rejected";
    sqlstate: string | null;
    reason: string | null;
}
export interface OutcomeGroup {
    outcome: Outcome["outcome"];
    state: string | null;
    sqlstate: string | null;
    reason: string | null;
    count: number;
    examples: string[];
}
export interface Outcomes {
    at: string;
    changed: number;
    unchanged: number;
    rejected: number;
    groups: OutcomeGroup[];
    items: Outcome[];
    next: string | null;
    unavailable?: Unavailable[];
}

/** What the action is applied to: given ids or row numbers, or all that a filter of the list matches. */
export type Target = { ids: string[] } | { rows: number[] } | { filter: Record<string, string> };

export interface Order {
    action: string;
    reason?: string;
    dry_run?: boolean;
}

export interface Progress {
    /** The time of the first answer: what was created later is not meant. */
    at: string | null;
    changed: number;
    unchanged: number;
    rejected: number;
    groups: OutcomeGroup[];
    /** The first items that were rejected, each with its error. */
    failed: Outcome[];
    /** Databases that could not be asked. */
    unavailable: Unavailable[];
    next: string | null;
    done: boolean;
}

export const begun: Progress = {
    at: null,
    changed: 0,
    unchanged: 0,
    rejected: 0,
    groups: [],
    failed: [],
    unavailable: [],
    next: null,
    done: false,
};

/** How many rejected items are kept for the summary. */
export const mostFailed = 200;
/** How many tasks a request changes at most. */
export const partSize = 200;

export function added(before: Progress, answer: Outcomes): Progress {
    const groups = new Map<string, OutcomeGroup>();
    for (const g of [...before.groups, ...answer.groups]) {
        const key = JSON.stringify([g.outcome, g.state, g.sqlstate, g.reason]);
        const same = groups.get(key);
        groups.set(
            key,
            same
                ? { ...same, count: same.count + g.count, examples: [...same.examples, ...g.examples].slice(0, 3) }
                : g,
        );
    }
    return {
        at: before.at ?? answer.at,
        changed: before.changed + answer.changed,
        unchanged: before.unchanged + answer.unchanged,
        rejected: before.rejected + answer.rejected,
        groups: [...groups.values()].sort((a, b) => b.count - a.count),
        failed: [...before.failed, ...answer.items.filter((i) => i.outcome === "rejected")].slice(0, mostFailed),
        unavailable: [
            ...new Map([...before.unavailable, ...(answer.unavailable ?? [])].map((u) => [u.database, u])).values(),
        ],
        next: answer.next,
        done: answer.next === null,
    };
}

export interface Means {
    post: (body: unknown, key: string) => Promise<Outcomes>;
    key: () => string;
    pause: (ms: number) => Promise<void>;
}

/**
 * Sends requests until the action is done or the signal aborts, from where `from` ended. A request that was lost is
 * sent again with its key, so nothing is done twice; one that takes too long is sent again for fewer items.
 */
export async function carryOut(
    order: Order,
    target: Target,
    means: Means,
    progress: (now: Progress) => void,
    signal: AbortSignal,
    from: Progress = begun,
): Promise<Progress> {
    let now = from;
    let size = partSize;
    let key = means.key();
    for (let tries = 0; !now.done && !signal.aborted;) {
        const body = {
            ...order,
            ...target,
            ...(now.next !== null ? { cursor: now.next } : {}),
            ...(order.dry_run ? {} : { limit: size }),
        };
        try {
            now = added(now, await means.post(body, key));
            progress(now);
            key = means.key();
            tries = 0;
        } catch (e) {
            const p = e instanceof Problem ? e : null;
            if (p?.sqlstate === "57014" && !order.dry_run && size > 1) {
                size = Math.ceil(size / 4);
                key = means.key();
            } else if (p && [0, 503, 504].includes(p.status) && p.sqlstate !== "57014" && tries < 5) {
                await means.pause(300 * 2 ** tries++);
            } else throw e;
        }
    }
    return now;
}

/** The target without what was created after the dry run; `until` is the filter's parameter for that, if it has one. */
export function asOf(target: Target, until: string | undefined, at: string | null): Target {
    if (!("filter" in target) || !until || !at) return target;
    const now = target.filter[until];
    return { filter: { ...target.filter, [until]: now && now < at ? now : at } };
}
