// The upper part of the overview: numbers, and how much moves.
import { ago, count, many, second } from "../format";
import { useNow } from "../live";
import { link } from "../router";
import { lastHour, rates, sampled, type Sample } from "../throughput";
import type { Overview } from "../types";
import { Card, Empty, Spark } from "../ui/parts";

// Kept while the tab is open, also when another page is shown.
let samples: Sample[] = [];

/** Keeps how many state changes there were at the time of an overview. */
export function remember(of: Overview): void {
    samples = sampled(samples, { at: Date.parse(of.at), total: of.moves.reduce((n, m) => n + m.total, 0) });
}

function Figure({
    name,
    value,
    note,
    href,
    bad,
}: {
    name: string;
    value: string;
    note?: string;
    href?: string;
    bad?: boolean;
}) {
    const inside = (
        <>
            <span class="name">{name}</span>
            <span class={bad ? "value bad" : "value"}>{value}</span>
            <span class="note">{note ?? ""}</span>
        </>
    );
    return href ? (
        <a class="figure" href={href}>
            {inside}
        </a>
    ) : (
        <div class="figure">{inside}</div>
    );
}

export function Figures({ of }: { of: Overview }) {
    const now = useNow();
    const waiting = of.queues.reduce((n, q) => n + q.depth, 0);
    const oldest = of.queues
        .map((q) => q.oldest_at)
        .filter((t): t is string => !!t)
        .sort()[0];
    const expired = of.owners.reduce((n, o) => n + o.expired, 0);
    const seen = rates(samples).slice(-3);
    const rate = seen.length > 0 ? seen.reduce((n, r) => n + r.perSecond, 0) / seen.length : null;
    const owned = of.owners.reduce((n, o) => n + o.owned, 0);
    const queued = of.queues.reduce((n, q) => n + q.owned, 0);
    const processors = new Set(of.owners.map((o) => o.processor)).size;
    const rejected = of.rejected?.items.reduce((n, r) => n + r.count, 0) ?? null;
    return (
        <div class="figures">
            <Figure
                name="Waiting"
                value={count(
                    waiting,
                    of.queues.some((q) => q.capped),
                )}
                note={oldest ? "oldest " + ago(oldest, now) : "nothing waits"}
            />
            <Figure
                name="In flight"
                value={count(
                    owned,
                    of.owners.some((o) => o.capped),
                )}
                note={[
                    expired > 0 ? `${count(expired)} with an expired lease` : many(processors, "owner"),
                    owned > queued ? `${count(owned - queued)} outside of queues` : "",
                ]
                    .filter(Boolean)
                    .join(", ")}
                bad={expired > 0}
            />
            {rate !== null && <Figure name="State changes a second" value={count(rate)} note="just now" />}
            {of.dead_letters !== null && (
                <Figure
                    name="Dead letters"
                    value={count(of.dead_letters)}
                    note={of.dead_letters > 0 ? "need a decision" : "none"}
                    href={link(["dlq"])}
                    bad={of.dead_letters > 0}
                />
            )}
            <Figure
                name="Rejected state changes"
                value={rejected === null ? "not counted" : count(rejected)}
                note={
                    of.rejected
                        ? "of all clients since " + second(of.rejected.since)
                        : "pawl is not in shared_preload_libraries"
                }
                bad={rejected !== null && rejected > 0}
            />
        </div>
    );
}

export function Throughput({ of }: { of: Overview }) {
    const seen = rates(samples);
    const most = Math.max(0, ...seen.map((r) => r.perSecond));
    const hour = lastHour(of.throughput ?? [], of.at);
    // before anything moves while the page is open, the daemon remembers what moved before
    const earlier = most === 0 && hour.some((m) => m.transitions > 0);
    const empty = Array.from({ length: Math.max(0, 60 - seen.length) }, () => ({ value: 0, bad: 0, title: "" }));
    const totals = of.moves
        .filter((m) => m.total > 0)
        .sort((a, b) => b.total - a.total)
        .slice(0, 4)
        .map((m) => `${m.relation} ${count(m.total)}`)
        .join(" · ");
    return (
        <Card
            title="Throughput"
            note={
                earlier
                    ? "state changes a minute in the last hour, of tables with events"
                    : most > 0
                      ? `state changes a second since this page was opened; at most ${count(most)}`
                      : undefined
            }
        >
            {earlier ? (
                <Spark
                    of={hour.map((m) => ({
                        value: m.transitions,
                        bad: m.failures,
                        title: `${new Date(m.minute).toLocaleTimeString()}: ${count(m.transitions)} state changes`,
                    }))}
                    label="State changes a minute in the last hour, the newest at the right"
                />
            ) : most > 0 ? (
                <Spark
                    of={[
                        ...empty,
                        ...seen.map((r) => ({
                            value: r.perSecond,
                            bad: 0,
                            title: `${new Date(r.at).toLocaleTimeString()}: ${count(r.perSecond)} state changes a second`,
                        })),
                    ]}
                    label={`State changes a second, the newest at the right; at most ${count(most)}`}
                />
            ) : (
                <Empty>No state has changed since this page was opened.</Empty>
            )}
            <p class="faint">{totals ? "In total: " + totals : "No log has entries."}</p>
        </Card>
    );
}
