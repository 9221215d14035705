import { segment } from "../api";
import { useMay } from "../live";
import { go, link } from "../router";
import type { BulkRow, BulkStep, Transition } from "../types";
import { usePaged } from "../ui/paged";
import { Card, Choice, More, Search, Show, State } from "../ui/parts";
import { Table } from "../ui/table";
import { useTicks, type Kind } from "../ui/ticks";

const states = ["Pending", "Running", "WaitingForCompletion", "Completed", "Failed", "TimedOut", "Cancelled"];

const retry: Kind["choices"] = [
    {
        action: "retry",
        verb: "Retry",
        means: "Failed rows start again at the step that failed. Steps that succeeded are not repeated.",
    },
];
const signals: Kind["choices"] = [
    {
        action: "complete",
        verb: "Complete",
        means: "The rows that wait for a signal are complete at this step, and go on to the next one.",
    },
    {
        action: "fail",
        verb: "Fail",
        danger: true,
        reason: "must",
        means: "The rows that wait for a signal fail at this step, with the reason as their message.",
    },
];

/** The rows of an operation, each with its current step. */
export function BulkRows({
    operation,
    query,
    steps,
    concerns,
    done,
}: {
    operation: string;
    query: Record<string, string>;
    steps: BulkStep[];
    concerns: (t: Transition) => boolean;
    /** After an action on rows. */
    done: () => void;
}) {
    const { state = "", step = "", id = "", search = "" } = query;
    const change = (more: Record<string, string>) =>
        go(link(["bulks", operation], { state, step, id, search, row: query.row, ...more }), true);
    const path = `/api/bulks/${segment(operation)}/rows`;
    const filter = { state, stepName: step, rowId: id, search };
    const rows = usePaged<BulkRow>(path, { ...filter, limit: 50 }, (r) => String(r.row_number), {
        concerns,
        least: 2_000,
    });
    const mayRetry = useMay("pawl_bulk.retry");
    const maySignal = useMay("pawl_bulk.signal") && steps.some((s) => s.kind === "signal");
    const kind: Kind = {
        path: path + "/actions",
        one: "row",
        rows: true,
        href: (row) => link(["bulks", operation], { ...query, row }),
        choices: [...(mayRetry ? retry : []), ...(maySignal ? signals : [])],
    };
    const {
        ticks,
        bar,
        dialog: acting,
    } = useTicks({
        kind,
        may: kind.choices.length > 0,
        filter,
        done: () => {
            rows.first.reload();
            done();
        },
    });
    return (
        <Card title="Rows" wide>
            <div class="filters" role="search">
                <Choice label="State" value={state} set={(v) => change({ state: v })} of={states} />
                <Choice
                    label="Step"
                    value={step}
                    set={(v) => change({ step: v })}
                    of={steps.map((s): [string, string] => [s.step_name, s.step_name])}
                />
                <Search label="Row id" value={id} set={(v) => change({ id: v })} />
                <Search
                    label="Text"
                    value={search}
                    set={(v) => change({ search: v })}
                    placeholder="of data or errors"
                />
            </div>
            <Show of={rows.first}>
                {() => (
                    <>
                        {rows.items.length > 0 && bar}
                        <Table
                            of={rows.items}
                            ticks={ticks}
                            empty={rows.next ? "None so far; later rows have not been searched." : "No row matches."}
                            rowKey={(r) => String(r.row_number)}
                            columns={[
                                {
                                    head: "Row",
                                    kind: "num",
                                    cell: (r) => (
                                        <a href={link(["bulks", operation], { ...query, row: r.row_number })}>
                                            {r.row_number}
                                        </a>
                                    ),
                                },
                                { head: "Id", cell: (r) => <span class="mono">{r.row_id ?? "–"}</span> },
                                { head: "Step", cell: (r) => r.step_name },
                                { head: "State", cell: (r) => <State s={r.state} /> },
                                {
                                    head: "Problem",
                                    kind: "grow",
                                    cell: (r) =>
                                        r.error_message ? (
                                            <>
                                                {r.error_message} <span class="faint">{r.error_type}</span>
                                            </>
                                        ) : (
                                            <span class="faint">–</span>
                                        ),
                                },
                            ]}
                        />
                        <More next={rows.next} load={rows.more} looking={rows.looking} />
                    </>
                )}
            </Show>
            {acting}
        </Card>
    );
}
