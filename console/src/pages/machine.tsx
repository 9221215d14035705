import { useMemo } from "preact/hooks";
import { get, segment, text, type Page } from "../api";
import { count, duration, second } from "../format";
import { useLive } from "../live";
import { link } from "../router";
import type { Counts, Machine, Overview, Slow } from "../types";
import { Card, Empty, Head, Num, Show, State } from "../ui/parts";
import { Table } from "../ui/table";
import { MachineDiagram } from "../ui/machine";

export function MachinePage({ machine }: { machine: string }) {
    const path = "/v1/machines/" + segment(machine);
    const definition = useLive(machine, (signal) => get<Machine>(path, {}, signal), {
        concerns: () => false,
        every: 60_000,
    });
    const diagram = useLive(machine, (signal) => text(path + "/diagram", signal), {
        concerns: () => false,
        every: 300_000,
    });
    const relations = definition.data?.bindings.map((b) => b.relation) ?? [];
    const counts = useLive(machine, (signal) => get<Page<Counts>>(path + "/counts", {}, signal), {
        concerns: (t) => relations.includes(t.relation),
        every: 5_000,
        least: 1_500,
    });
    const slow = useLive(machine, (signal) => get<Page<Slow>>(path + "/slowest", {}, signal), {
        concerns: () => false,
        every: 30_000,
    });
    const overview = useLive("rejections", (signal) => get<Overview>("/v1/overview", {}, signal), {
        concerns: () => false,
        every: 15_000,
    });
    const rejected = overview.data?.rejected;
    const totals = useMemo(() => {
        const of = new Map<string, { count: number; capped?: boolean }>();
        for (const binding of counts.data?.items ?? [])
            for (const c of binding.counts) of.set(c.state, { count: (of.get(c.state)?.count ?? 0) + c.count });
        return of;
    }, [counts.data]);
    const tags = new Map(definition.data?.states.map((s) => [s.state, s.tags]));
    return (
        <>
            <Head
                title={machine}
                sub={
                    <>
                        {definition.data && <>version {definition.data.version} · </>}
                        <a href={link(["draw"], { machine })}>open in Draw</a> ·{" "}
                        <a href={link(["machines"])}>all machines</a>
                    </>
                }
            />
            <Card title="Diagram" wide note="with the rows that are in each state now">
                <Show of={diagram}>
                    {(d) => <MachineDiagram text={d} counts={totals} label={`State diagram of ${machine}`} />}
                </Show>
            </Card>
            <div class="cards">
                <Card title="Rows by state">
                    <Show of={counts}>
                        {({ items }) =>
                            items.length === 0 ? (
                                <Empty>No table is bound to it.</Empty>
                            ) : (
                                <>
                                    {items.map((b) => (
                                        <div key={b.relation + b.state_column}>
                                            <h3>
                                                {b.relation}.{b.state_column}
                                            </h3>
                                            <Table
                                                of={b.counts.filter((c) => c.count > 0)}
                                                empty="No rows."
                                                rowKey={(c) => c.state}
                                                columns={[
                                                    {
                                                        head: "State",
                                                        kind: "grow",
                                                        cell: (c) => <State s={c.state} tags={tags.get(c.state)} />,
                                                    },
                                                    {
                                                        head: "Rows",
                                                        kind: "num",
                                                        cell: (c) => (
                                                            <>
                                                                {b.estimated && <span class="faint">about </span>}
                                                                <Num n={c.count} />
                                                            </>
                                                        ),
                                                    },
                                                ]}
                                            />
                                        </div>
                                    ))}
                                </>
                            )
                        }
                    </Show>
                </Card>
                <Card title="Slowest states" note="by the newest log entries">
                    <Show of={slow}>
                        {({ items }) => (
                            <Table
                                of={items}
                                empty="The log has no row that left a state."
                                rowKey={(s) => s.relation + s.state}
                                columns={[
                                    {
                                        head: "State",
                                        kind: "grow",
                                        cell: (s) => <State s={s.state} tags={tags.get(s.state)} />,
                                    },
                                    { head: "Left", kind: "num", cell: (s) => <Num n={s.samples} /> },
                                    { head: "Mean", kind: "num", cell: (s) => duration(s.mean_s) },
                                    { head: "95 %", kind: "num", cell: (s) => duration(s.p95_s) },
                                    { head: "Longest", kind: "num", cell: (s) => duration(s.max_s) },
                                ]}
                            />
                        )}
                    </Show>
                </Card>
                <Card
                    title="Rejected state changes"
                    note={rejected ? <>of all clients since {second(rejected.since)}</> : undefined}
                >
                    <Show of={overview}>
                        {({ rejected }) =>
                            rejected ? (
                                <Table
                                    of={rejected.items.filter((r) => r.machine === machine)}
                                    empty="None."
                                    columns={[
                                        {
                                            head: "SQLSTATE",
                                            kind: "grow",
                                            cell: (r) => <code>{r.sqlstate ?? "–"}</code>,
                                        },
                                        { head: "Times", kind: "num", cell: (r) => count(r.count) },
                                    ]}
                                />
                            ) : (
                                <Empty>Not counted: pawl is not in shared_preload_libraries.</Empty>
                            )
                        }
                    </Show>
                </Card>
                <Card title="Tables">
                    <Table
                        of={definition.data?.bindings ?? []}
                        empty="It is bound to no table."
                        columns={[
                            { head: "Table", kind: "grow", cell: (b) => b.relation },
                            { head: "Column", cell: (b) => b.state_column },
                            {
                                head: "Timelines",
                                cell: (b) =>
                                    b.history ? (
                                        <a href={link(["row"], { relation: b.relation })}>look up a row</a>
                                    ) : (
                                        <span class="faint">no log</span>
                                    ),
                            },
                        ]}
                    />
                </Card>
            </div>
        </>
    );
}
