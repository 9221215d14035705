import { get, post, segment } from "../api";
import { duration, secondsBetween } from "../format";
import { useLive, useMay } from "../live";
import { link } from "../router";
import type { BulkRowDetail, Transition, Waiting } from "../types";
import { useAsk } from "../ui/dialog";
import { Ago, Card, Json, More, Show, State } from "../ui/parts";
import { Table } from "../ui/table";
import { usePaged } from "../ui/paged";

/** One row: its data, and what each step made of it. */
export function BulkRowCard({
    operation,
    row,
    query,
    version,
}: {
    operation: string;
    row: string;
    query: Record<string, string>;
    version: string;
}) {
    const loaded = useLive(
        row + version,
        (signal) => get<BulkRowDetail>(`/api/bulks/${segment(operation)}/rows/${segment(row)}`, {}, signal),
        { every: 5_000 },
    );
    return (
        <Card
            title={`Row ${row}`}
            wide
            note={<a href={link(["bulks", operation], { ...query, row: null })}>close</a>}
            id="row"
        >
            <Show of={loaded}>
                {(r) => (
                    <div class="split">
                        <div>
                            <h3>Data{r.row_id ? ` of ${r.row_id}` : ""}</h3>
                            <Json value={r.data} open />
                        </div>
                        <div>
                            <h3>Steps</h3>
                            <Table
                                of={r.records}
                                empty="No step has started."
                                rowKey={(x) => String(x.step_index)}
                                columns={[
                                    { head: "Step", cell: (x) => x.step_name },
                                    { head: "State", cell: (x) => <State s={x.state} /> },
                                    {
                                        head: "Tries",
                                        kind: "num",
                                        cell: (x) =>
                                            x.tries + (x.retry_attempt > 0 ? ` (retry ${x.retry_attempt})` : ""),
                                    },
                                    {
                                        head: "Took",
                                        kind: "num",
                                        cell: (x) => duration(secondsBetween(x.started_at, x.completed_at)),
                                    },
                                    {
                                        head: "Problem",
                                        kind: "grow",
                                        cell: (x) =>
                                            x.error_message ? (
                                                <>
                                                    {x.error_message} <span class="faint">{x.error_type}</span>
                                                </>
                                            ) : (
                                                <span class="faint">–</span>
                                            ),
                                    },
                                ]}
                            />
                        </div>
                    </div>
                )}
            </Show>
        </Card>
    );
}

/** Keys whose signal a row waits for, each with the two possible answers. */
export function BulkSignals({
    operation,
    done,
    concerns,
}: {
    operation: string;
    done: () => void;
    concerns: (t: Transition) => boolean;
}) {
    const may = useMay("pawl_bulk.signal");
    const path = `/api/bulks/${segment(operation)}`;
    const waiting = usePaged<Waiting>(
        path + "/signals/waiting",
        { limit: 20 },
        (w) => `${w.row_number} ${w.step_name}`,
        { concerns, least: 1_000 },
    );
    const { ask, dialog } = useAsk(() => {
        waiting.first.reload();
        done();
    });
    const answer = (w: Waiting, good: boolean) =>
        ask({
            title: `${good ? "Complete" : "Fail"} ${w.key ?? "the row"}?`,
            verb: good ? "Send the signal" : "Send the failure",
            danger: !good,
            reason: good ? undefined : "must",
            effect: {
                allowed: true,
                lines: [
                    good
                        ? `Row ${w.row_number} will be complete at ${w.step_name} and go on to the next step.`
                        : `Row ${w.row_number} will be failed at ${w.step_name}, with the reason as its message.`,
                    "A signal counts once; a second one changes nothing.",
                ],
            },
            act: (reason) =>
                good
                    ? post(`${path}/signal/${segment(w.key ?? "")}`)
                    : post(`${path}/signal/${segment(w.key ?? "")}/fail`, { errorMessage: reason }),
        });
    return (
        <Card title="Waits for a signal" wide id="signals">
            <Show of={waiting.first}>
                {() => (
                    <>
                        <Table
                            of={waiting.items}
                            empty="Nothing waits for a signal."
                            rowKey={(w) => `${w.row_number} ${w.step_name}`}
                            columns={[
                                { head: "Key", kind: "grow", cell: (w) => <span class="mono">{w.key}</span> },
                                {
                                    head: "Row",
                                    kind: "num",
                                    cell: (w) => (
                                        <a href={link(["bulks", operation], { row: w.row_number })}>{w.row_number}</a>
                                    ),
                                },
                                { head: "Step", cell: (w) => w.step_name },
                                { head: "Since", kind: "num", cell: (w) => <Ago t={w.since} /> },
                                { head: "Until", kind: "num", cell: (w) => <Ago t={w.timeout_at} /> },
                                {
                                    head: "Answer",
                                    cell: (w) =>
                                        may ? (
                                            <span class="pair">
                                                <button onClick={() => answer(w, true)}>Complete…</button>{" "}
                                                <button class="danger" onClick={() => answer(w, false)}>
                                                    Fail…
                                                </button>
                                            </span>
                                        ) : null,
                                },
                            ]}
                        />
                        <More next={waiting.next} load={waiting.more} />
                    </>
                )}
            </Show>
            {dialog}
        </Card>
    );
}
