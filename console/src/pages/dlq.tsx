import { post } from "../api";
import { useMay } from "../live";
import { go, link } from "../router";
import { failedStep, problemText, spoken } from "../format";
import type { DeadLetter } from "../types";
import { useAsk } from "../ui/dialog";
import { usePaged } from "../ui/paged";
import { useTicks, type Kind } from "../ui/ticks";
import { Missing, useColumn } from "../ui/databases";
import { Ago, Choice, Head, Id, More, Search, Show, State } from "../ui/parts";
import { Table } from "../ui/table";

const kind: Kind = {
    path: "/v1/dlq/actions",
    one: "dead letter",
    until: "entered_before",
    href: (id) => link(["tasks", id]),
    choices: [
        {
            action: "retry",
            verb: "Retry",
            reason: "may",
            means: "The dead letters are closed, and their tasks continue from the failed steps. Finished steps keep their results.",
        },
        {
            action: "give_up",
            verb: "Give up",
            danger: true,
            reason: "must",
            means: "The tasks end in error, and the dead letters are closed. A retry can start a task again later.",
        },
        {
            action: "cancel",
            verb: "Cancel",
            danger: true,
            reason: "may",
            means: "The tasks and their unfinished steps are cancelled. This cannot be undone.",
        },
    ],
};

export function DeadLettersPage({ query }: { query: Record<string, string> }) {
    const may = useMay("pawl_dag.retry_task");
    const { status = "pending", search = "" } = query;
    const change = (more: Record<string, string>) => go(link(["dlq"], { status, search, ...more }), true);
    const letters = usePaged<DeadLetter>(
        "/v1/dlq",
        { status: status === "all" ? "" : status, search, limit: 50 },
        (d) => d.entry_uuid,
        { concerns: (t) => t.relation === "pawl_dag.tasks" },
    );
    const column = useColumn<DeadLetter>();
    const { ask, dialog } = useAsk(letters.first.reload);
    const {
        ticks,
        bar,
        dialog: acting,
    } = useTicks({
        kind,
        may: may && status === "pending",
        filter: { search },
        done: letters.first.reload,
    });
    return (
        <>
            <Head title="Dead letters" sub="Tasks that wait for an operator's decision." />
            <div class="filters" role="search">
                <Choice
                    label="Status"
                    value={status}
                    none={null}
                    set={(v) => change({ status: v })}
                    of={["pending", "manually_resolved", "permanently_failed", "cancelled", "all"]}
                />
                <Search
                    label="Text"
                    value={search}
                    set={(v) => change({ search: v })}
                    placeholder="of context, errors, notes"
                />
            </div>
            <Show of={letters.first}>
                {({ unavailable }) => (
                    <>
                        <Missing of={unavailable} what="dead letters" />
                        {letters.items.length > 0 && bar}
                        <Table
                            of={letters.items}
                            ticks={ticks}
                            tickKey={(d) => (d.resolution_status === "pending" ? d.task_uuid : null)}
                            empty={
                                search
                                    ? !letters.next
                                        ? "No dead letter has this text."
                                        : "None so far; older dead letters have not been searched."
                                    : status === "pending"
                                      ? "None. Nothing waits for a decision."
                                      : "None."
                            }
                            rowKey={(d) => d.entry_uuid}
                            columns={[
                                {
                                    head: "Task",
                                    cell: (d) => <Id id={d.task_uuid} href={link(["tasks", d.task_uuid])} />,
                                },
                                {
                                    head: "Template",
                                    cell: (d) => <a href={link(["tasks", d.task_uuid])}>{d.template ?? "–"}</a>,
                                },
                                ...column,
                                { head: "Was", cell: (d) => <State s={d.original_state} /> },
                                {
                                    head: "Problem",
                                    kind: "grow",
                                    cell: (d) => (
                                        <>
                                            {d.error !== null && (
                                                <>
                                                    {failedStep(d.error) && <strong>{failedStep(d.error)}: </strong>}
                                                    {problemText(d.error)}{" "}
                                                </>
                                            )}
                                            <span class="faint">{spoken(d.reason)}</span>
                                        </>
                                    ),
                                },
                                { head: "Since", kind: "num", cell: (d) => <Ago t={d.dlq_timestamp} /> },
                                { head: "Status", cell: (d) => <State s={d.resolution_status} /> },
                                {
                                    head: "What to do",
                                    cell: (d) =>
                                        d.resolution_status === "pending" && may ? (
                                            <button
                                                onClick={() =>
                                                    ask({
                                                        title: `Retry ${d.template ?? "the task"}?`,
                                                        verb: "Retry the task",
                                                        reason: "may",
                                                        effect: {
                                                            allowed: true,
                                                            lines: [
                                                                "The dead letter is closed and the task continues from its failed steps.",
                                                                "Finished steps keep their results.",
                                                            ],
                                                        },
                                                        act: (reason) =>
                                                            post(`/v1/tasks/${d.task_uuid}/retry`, {
                                                                reason: reason || null,
                                                            }),
                                                    })
                                                }
                                            >
                                                Retry…
                                            </button>
                                        ) : (
                                            <span class="faint">
                                                {[d.resolved_by, d.resolution_notes].filter(Boolean).join(": ") || "–"}
                                            </span>
                                        ),
                                },
                            ]}
                        />
                        <More next={letters.next} load={letters.more} looking={letters.looking} />
                    </>
                )}
            </Show>
            {acting}
            {dialog}
        </>
    );
}
