import { useState } from "preact/hooks";
import { get, post, type Page } from "../api";
import { useLive, useMay } from "../live";
import { go, link } from "../router";
import type { MachineLine, RowHistory } from "../types";
import { useAsk } from "../ui/dialog";
import { Card, Empty, Facts, Head, Json, Show, State } from "../ui/parts";
import { OfOne } from "../ui/databases";
import { Table } from "../ui/table";
import { Timeline } from "../ui/timeline";

function Find({ relation, rowKey }: { relation: string; rowKey: string }) {
    const machines = useLive("machines", (signal) => get<Page<MachineLine>>("/v1/machines", {}, signal), {
        concerns: () => false,
        every: 60_000,
    });
    const [table, setTable] = useState(relation);
    const [key, setKey] = useState(rowKey);
    const tables = [
        ...new Set(
            (machines.data?.items ?? [])
                .flatMap((m) => m.bindings)
                .filter((b) => b.history)
                .map((b) => b.relation),
        ),
    ].sort();
    return (
        <form
            class="filters"
            onSubmit={(e) => {
                e.preventDefault();
                go(link(["row"], { relation: table, key }));
            }}
        >
            <label class="field">
                <span>Table</span>
                <select name="relation" required value={table} onChange={(e) => setTable(e.currentTarget.value)}>
                    <option value="">choose…</option>
                    {[...new Set([...tables, ...(table ? [table] : [])])].map((t) => (
                        <option value={t} key={t}>
                            {t}
                        </option>
                    ))}
                </select>
            </label>
            <label class="field grow">
                <span>Key</span>
                <input
                    name="key"
                    required
                    value={key}
                    onInput={(e) => setKey(e.currentTarget.value)}
                    placeholder="17, or several columns with commas between"
                    spellcheck={false}
                />
            </label>
            <button class="primary" type="submit">
                Show
            </button>
        </form>
    );
}

function Found({ relation, rowKey }: { relation: string; rowKey: string }) {
    const may = useMay();
    const row = useLive(
        relation + " " + rowKey,
        (signal) => get<RowHistory>("/v1/history", { relation, key: rowKey }, signal),
        { concerns: (t) => t.relation === relation },
    );
    const { ask, dialog } = useAsk(row.reload);
    return (
        <Show of={row}>
            {(r) => (
                <div class="cards">
                    <Card title="Timeline" wide>
                        <Timeline of={r.items} />
                    </Card>
                    <Card title="Now">
                        <Facts
                            of={[
                                ["State", r.state ? <State s={r.state} /> : <span class="faint">the row is gone</span>],
                                ["Row", <Json value={r.row} label="all columns" />],
                            ]}
                        />
                    </Card>
                    <Card title="Possible transitions">
                        <Table
                            of={r.available}
                            empty="None: the state is terminal."
                            columns={[
                                { head: "Event", kind: "grow", cell: (a) => <code>{a.event}</code> },
                                { head: "To", cell: (a) => <State s={a.to_state} /> },
                                {
                                    head: "Now",
                                    cell: (a) =>
                                        a.allowed ? (
                                            may && r.may_fire ? (
                                                <button
                                                    onClick={() =>
                                                        ask({
                                                            title: `Fire ${a.event}?`,
                                                            verb: "Fire " + a.event,
                                                            reason: "may",
                                                            effect: {
                                                                allowed: true,
                                                                lines: [
                                                                    `The row will change from ${r.state} to ${a.to_state}.`,
                                                                    "Guards, effects and follow-ups run as for any other state change.",
                                                                ],
                                                            },
                                                            act: (reason) =>
                                                                post("/v1/fire", {
                                                                    relation,
                                                                    key: r.key,
                                                                    event: a.event,
                                                                    metadata: reason ? { reason } : null,
                                                                }),
                                                        })
                                                    }
                                                >
                                                    Fire…
                                                </button>
                                            ) : (
                                                <span class="faint">
                                                    {may ? "the role may not update the row" : "allowed"}
                                                </span>
                                            )
                                        ) : (
                                            <span class="faint">
                                                blocked by {a.blocked_by?.join(", ") || "a guard"}
                                            </span>
                                        ),
                                },
                            ]}
                        />
                    </Card>
                    {dialog}
                </div>
            )}
        </Show>
    );
}

export function RowPage({ query }: { query: Record<string, string> }) {
    const { relation = "", key = "" } = query;
    return (
        <>
            <Head title="Timeline" sub="What happened to one row of any table that keeps a log." />
            <OfOne />
            <Find relation={relation} rowKey={key} key={relation + key} />
            {relation && key ? (
                <Found relation={relation} rowKey={key} />
            ) : (
                <Empty>Choose a table and type the key of a row.</Empty>
            )}
        </>
    );
}
