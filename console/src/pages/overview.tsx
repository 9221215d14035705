import { get } from "../api";
import { count, duration, problemText, second, secondsBetween } from "../format";
import { useLive, useSession } from "../live";
import { link } from "../router";
import type { Failure, Overview, Owner, Queue, Session } from "../types";
import { Ago, Bar, Card, Counts, Head, Id, Num, Owner as OwnerName, Show, State } from "../ui/parts";
import { Healths, OfOne } from "../ui/databases";
import { Table } from "../ui/table";
import { Figures, remember, Throughput } from "./figures";

function Queues({ of }: { of: Queue[] }) {
    return (
        <Card title="Queues" wide>
            <Table
                of={of}
                empty="No table has a queue."
                rowKey={(q) => q.relation + " " + q.queue}
                columns={[
                    { head: "Table", cell: (q) => q.relation },
                    {
                        head: "Queue",
                        cell: (q) => (
                            <>
                                {q.queue ?? <span class="faint">–</span>}{" "}
                                {q.paused && <span class="state wait">paused</span>}
                            </>
                        ),
                    },
                    { head: "Waiting", kind: "num", cell: (q) => <Num n={q.depth} capped={q.capped} /> },
                    { head: "In flight", kind: "num", cell: (q) => <Num n={q.owned} /> },
                    { head: "Oldest", kind: "num", cell: (q) => <Ago t={q.oldest_at} /> },
                ]}
            />
        </Card>
    );
}

function Owners({ of }: { of: Owner[] }) {
    return (
        <Card title="Owners and leases" wide>
            <Table
                of={of}
                empty="No row has an owner."
                rowKey={(o) => o.relation + " " + o.processor}
                columns={[
                    { head: "Owner", kind: "grow", cell: (o) => <OwnerName name={o.processor} /> },
                    { head: "Table", cell: (o) => o.relation },
                    { head: "In flight", kind: "num", cell: (o) => <Num n={o.owned} capped={o.capped} /> },
                    {
                        head: "Expired",
                        kind: "num",
                        cell: (o) =>
                            o.expired > 0 ? (
                                <strong class="bad">{count(o.expired)}</strong>
                            ) : (
                                <span class="faint">0</span>
                            ),
                    },
                    { head: "Next lease ends", kind: "num", cell: (o) => <Ago t={o.next_lease_end} /> },
                ]}
            />
        </Card>
    );
}

export function whereOf(f: Failure): string {
    return link([f.kind === "task" ? "tasks" : f.kind === "bulk" ? "bulks" : "flows", f.id]);
}

function Failures({ of }: { of: Failure[] }) {
    return (
        <Card title="Latest failures" wide>
            <Table
                of={of}
                empty="Nothing failed lately."
                rowKey={(f) => f.kind + f.id}
                columns={[
                    {
                        head: "What",
                        cell: (f) => (
                            <>
                                {f.kind} <a href={whereOf(f)}>{f.name}</a>
                            </>
                        ),
                    },
                    { head: "Id", cell: (f) => <Id id={f.id} href={whereOf(f)} /> },
                    { head: "Problem", kind: "grow", cell: (f) => problemText(f.what) },
                    { head: "When", kind: "num", cell: (f) => <Ago t={f.at} /> },
                ]}
            />
        </Card>
    );
}

function Daemon({ session }: { session: Session }) {
    const daemon = session.daemon;
    const duties = daemon?.duties ?? [];
    return (
        <Card
            title="This daemon"
            wide
            note={
                <>
                    {session.database}, pawl {session.version}
                    {daemon?.uptime_s ? ", up " + duration(daemon.uptime_s) : ""}
                </>
            }
        >
            {daemon && (
                <p>
                    {daemon.healthy ? (
                        <span class="state good">healthy</span>
                    ) : (
                        <span class="state bad">not healthy</span>
                    )}{" "}
                    {daemon.reason}
                </p>
            )}
            {duties.length > 0 && (
                <Table
                    of={duties}
                    empty=""
                    rowKey={(d) => d.name}
                    columns={[
                        { head: "Duty", kind: "grow", cell: (d) => d.name },
                        { head: "Runs", kind: "num", cell: (d) => <Num n={d.runs} /> },
                        { head: "Rows", kind: "num", cell: (d) => <Num n={d.rows} /> },
                        {
                            head: "Errors",
                            kind: "num",
                            cell: (d) =>
                                d.errors > 0 ? (
                                    <strong class="bad" title={d.last_error ?? undefined}>
                                        {count(d.errors)}
                                    </strong>
                                ) : (
                                    <span class="faint">0</span>
                                ),
                        },
                        { head: "Time", kind: "num", cell: (d) => duration(d.seconds) },
                    ]}
                />
            )}
        </Card>
    );
}

async function load(signal: AbortSignal): Promise<Overview> {
    const overview = await get<Overview>("/v1/overview", {}, signal);
    remember(overview);
    return overview;
}

export function OverviewPage() {
    const session = useSession();
    const overview = useLive("overview", load, { every: 5_000, least: 2_000 });
    const daemon = useLive("session", (signal) => get<Session>("/v1/session", {}, signal), {
        every: 10_000,
        least: 10_000,
    });
    return (
        <>
            <Head title="Overview" />
            <Healths />
            <OfOne />
            <Show of={overview}>
                {(o) => (
                    <>
                        <Figures of={o} />
                        <div class="cards">
                            <Throughput of={o} />
                            <Card title="In progress">
                                <dl class="rows">
                                    {o.tasks_open && (
                                        <>
                                            <dt>
                                                <a href={link(["tasks"])}>Tasks</a>
                                            </dt>
                                            <dd>
                                                <Counts
                                                    of={o.tasks_open}
                                                    link={(state) => link(["tasks"], { state })}
                                                />
                                            </dd>
                                        </>
                                    )}
                                    {o.sagas_open && (
                                        <>
                                            <dt>
                                                <a href={link(["flows"])}>Sagas</a>
                                            </dt>
                                            <dd>
                                                <Counts
                                                    of={o.sagas_open}
                                                    link={(state) => link(["flows"], { state })}
                                                />
                                            </dd>
                                        </>
                                    )}
                                    {o.bulks_open && (
                                        <>
                                            <dt>
                                                <a href={link(["bulks"])}>Bulk</a>
                                            </dt>
                                            <dd>
                                                {o.bulks_open.length === 0 ? (
                                                    <span class="faint">none</span>
                                                ) : (
                                                    o.bulks_open.map((b) => (
                                                        <a
                                                            class="bulkline"
                                                            href={link(["bulks", b.operation])}
                                                            key={b.operation}
                                                        >
                                                            <span>{b.definition}</span>{" "}
                                                            <State s={b.paused_at ? "paused" : b.status} />{" "}
                                                            <Bar
                                                                done={b.successful_rows}
                                                                failed={b.failed_rows}
                                                                of={b.total_rows}
                                                            />
                                                        </a>
                                                    ))
                                                )}
                                            </dd>
                                        </>
                                    )}
                                    {o.timers
                                        .filter((t) => t.due > 0)
                                        .map((t) => (
                                            <>
                                                <dt>Timers</dt>
                                                <dd>
                                                    {count(t.due)} due in {t.relation}
                                                    {t.oldest_at
                                                        ? `, ${duration(secondsBetween(t.oldest_at, o.at))} late`
                                                        : ""}
                                                </dd>
                                            </>
                                        ))}
                                </dl>
                            </Card>
                            <Queues of={o.queues} />
                            <Failures of={o.recent_failures ?? []} />
                            <Owners of={o.owners} />
                            {o.rejected && o.rejected.items.length > 0 && (
                                <Card
                                    title="Rejected state changes"
                                    wide
                                    note={<>of all clients since {second(o.rejected.since)}</>}
                                >
                                    <Table
                                        of={o.rejected.items.filter((r) => r.count > 0)}
                                        empty="None."
                                        columns={[
                                            {
                                                head: "Machine",
                                                kind: "grow",
                                                cell: (r) =>
                                                    r.machine ? (
                                                        <a href={link(["machines", r.machine])}>{r.machine}</a>
                                                    ) : (
                                                        <span class="faint">others, beyond pawl.counter_slots</span>
                                                    ),
                                            },
                                            { head: "SQLSTATE", cell: (r) => <code>{r.sqlstate ?? "–"}</code> },
                                            { head: "Times", kind: "num", cell: (r) => <Num n={r.count} /> },
                                        ]}
                                    />
                                </Card>
                            )}
                            {o.rejections && o.rejections.length > 0 && (
                                <Card title="Errors of requests" wide note="of clients of this daemon since it started">
                                    <Table
                                        of={o.rejections}
                                        empty=""
                                        columns={[
                                            { head: "SQLSTATE", kind: "grow", cell: (r) => <code>{r.sqlstate}</code> },
                                            { head: "Times", kind: "num", cell: (r) => <Num n={r.count} /> },
                                            { head: "Last", kind: "num", cell: (r) => <Ago t={r.last_at} /> },
                                        ]}
                                    />
                                </Card>
                            )}
                            <Daemon session={daemon.data ?? session} />
                        </div>
                    </>
                )}
            </Show>
        </>
    );
}
