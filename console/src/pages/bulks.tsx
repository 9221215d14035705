import { useLive, useMay } from "../live";
import { get, type Page } from "../api";
import { count, duration } from "../format";
import { go, link } from "../router";
import type { Bulk } from "../types";
import { usePaged } from "../ui/paged";
import { useTicks, type Kind } from "../ui/ticks";
import { Missing, useColumn } from "../ui/databases";
import { Ago, Bar, Choice, Head, Id, More, Num, Show, State } from "../ui/parts";
import { Table } from "../ui/table";

const states = [
    "Pending",
    "Validating",
    "Running",
    "Completed",
    "CompletedWithErrors",
    "Retrying",
    "Failed",
    "Cancelled",
];

const kind: Kind = {
    path: "/api/bulks/actions",
    one: "operation",
    until: "toDate",
    href: (id) => link(["bulks", id]),
    choices: [
        {
            action: "retry",
            verb: "Retry",
            means: "Failed rows start again at the step that failed. Steps that succeeded are not repeated.",
        },
        {
            action: "pause",
            verb: "Pause",
            means: "No more rows are started; rows that workers have claimed are finished.",
        },
        { action: "resume", verb: "Resume", means: "Workers continue with the remaining rows." },
        {
            action: "cancel",
            verb: "Cancel",
            danger: true,
            means: "Rows without an outcome are cancelled. This cannot be undone.",
        },
    ],
};

export function BulksPage({ query }: { query: Record<string, string> }) {
    const { status = "", definition = "" } = query;
    const change = (more: Record<string, string>) => go(link(["bulks"], { status, definition, ...more }), true);
    const definitions = useLive("definitions", (signal) => get<Page<{ name: string }>>("/api/operations", {}, signal), {
        concerns: () => false,
        every: 60_000,
    });
    const filter = { status, operationName: definition };
    const bulks = usePaged<Bulk>("/api/bulks", { ...filter, limit: 50 }, (b) => b.operation, {
        concerns: (t) => t.relation.startsWith("pawl_bulk."),
        every: 3_000,
        least: 1_000,
    });
    const column = useColumn<Bulk>();
    const {
        ticks,
        bar,
        dialog: acting,
    } = useTicks({ kind, may: useMay("pawl_bulk.retry"), filter, done: bulks.first.reload });
    return (
        <>
            <Head title="Bulk operations" />
            <div class="filters" role="search">
                <Choice label="Status" value={status} set={(v) => change({ status: v })} of={states} />
                <Choice
                    label="Definition"
                    value={definition}
                    set={(v) => change({ definition: v })}
                    of={[...new Set((definitions.data?.items ?? []).map((d) => d.name))].map((n): [string, string] => [
                        n,
                        n,
                    ])}
                />
            </div>
            <Show of={bulks.first}>
                {({ unavailable }) => (
                    <>
                        <Missing of={unavailable} what="operations" />
                        {bulks.items.length > 0 && bar}
                        <Table
                            of={bulks.items}
                            ticks={ticks}
                            empty={
                                status || definition
                                    ? "No operation matches these filters."
                                    : "No operation was submitted yet."
                            }
                            rowKey={(b) => b.operation}
                            columns={[
                                {
                                    head: "Operation",
                                    cell: (b) => <Id id={b.operation} href={link(["bulks", b.operation])} />,
                                },
                                {
                                    head: "Definition",
                                    kind: "grow",
                                    cell: (b) => (
                                        <>
                                            <a href={link(["bulks", b.operation])}>{b.definition}</a>{" "}
                                            <span class="faint">{b.file_name}</span>
                                        </>
                                    ),
                                },
                                ...column,
                                {
                                    head: "Status",
                                    cell: (b) => (
                                        <>
                                            <State s={b.status} />{" "}
                                            {b.paused_at && <span class="state wait">paused</span>}
                                        </>
                                    ),
                                },
                                {
                                    head: "Progress",
                                    kind: "tight",
                                    cell: (b) => (
                                        <Bar done={b.successful_rows} failed={b.failed_rows} of={b.total_rows} />
                                    ),
                                },
                                {
                                    head: "Rows",
                                    kind: "num",
                                    cell: (b) => <Num n={b.total_rows || b.validated_rows} />,
                                },
                                {
                                    head: "Failed",
                                    kind: "num",
                                    cell: (b) =>
                                        b.failed_rows > 0 ? (
                                            <strong class="bad">{count(b.failed_rows)}</strong>
                                        ) : (
                                            <span class="faint">0</span>
                                        ),
                                },
                                {
                                    head: "Left",
                                    kind: "num",
                                    cell: (b) =>
                                        b.estimated_end ? (
                                            duration(Math.max(0, (Date.parse(b.estimated_end) - Date.now()) / 1000))
                                        ) : (
                                            <span class="faint">–</span>
                                        ),
                                },
                                { head: "Created", kind: "num", cell: (b) => <Ago t={b.created_at} /> },
                            ]}
                        />
                        <More next={bulks.next} load={bulks.more} />
                    </>
                )}
            </Show>
            {acting}
        </>
    );
}
