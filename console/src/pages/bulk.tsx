import { useState } from "preact/hooks";
import { download, get, post, segment, type Page } from "../api";
import { bulkEffect } from "../effects";
import { count, duration, secondsBetween } from "../format";
import { useLive, useMay } from "../live";
import { link } from "../router";
import type { BulkDetail, Eligibility, ErrorGroup } from "../types";
import { In } from "../ui/databases";
import { useAsk } from "../ui/dialog";
import { Ago, Bar, Card, Facts, Head, Json, Num, Show, State, Trouble } from "../ui/parts";
import { Table } from "../ui/table";
import { BulkRows } from "./bulkrows";
import { BulkRowCard, BulkSignals } from "./bulkrow";

const reasons: Record<string, string> = {
    operation_not_found: "there is no such operation",
    wrong_status: "its status does not allow it",
    definition_missing: "its definition is gone",
    not_retryable: "its definition forbids it",
    row_data_not_tracked: "the rows' data were not kept",
    max_attempts_reached: "it was retried as often as it may be",
    no_retryable_rows: "no row can be retried",
    eligible: "it can be retried",
};

function Status({ b }: { b: BulkDetail }) {
    return (
        <Card
            title="Progress"
            note={
                b.status === "Validating"
                    ? `${count(b.validated_rows)} rows validated`
                    : `${count(b.processed_rows)} of ${count(b.total_rows)} rows`
            }
        >
            <Bar done={b.successful_rows} failed={b.failed_rows} of={b.total_rows} />
            <Facts
                of={[
                    ["Succeeded", <Num n={b.successful_rows} />],
                    ["Failed", b.failed_rows > 0 ? <strong class="bad">{count(b.failed_rows)}</strong> : 0],
                    ["Rows a second", <Num n={b.rate} />],
                    ["Estimated end", <Ago t={b.estimated_end} />],
                    ["Retries", b.retry_count],
                    ["Created", <Ago t={b.created_at} />],
                    ["Started", <Ago t={b.started_at} />],
                    ["Ended", <Ago t={b.completed_at} />],
                    ["Took", duration(secondsBetween(b.started_at, b.completed_at))],
                    ["By", b.created_by ?? "–"],
                    ["File", b.file_name ?? "–"],
                    ["Metadata", <Json value={b.metadata} label="metadata" />],
                ]}
            />
            {b.error_message && <p class="banner bad">{b.error_message}</p>}
        </Card>
    );
}

export function BulkPage({ operation, query }: { operation: string; query: Record<string, string> }) {
    const may = useMay("pawl_bulk.retry");
    const path = "/api/bulks/" + segment(operation);
    const concerns = (t: { relation: string; key: unknown }) =>
        t.relation.startsWith("pawl_bulk.") && JSON.stringify(t.key).includes(operation);
    const bulk = useLive(operation, (signal) => get<BulkDetail>(path, {}, signal), {
        concerns,
        every: 2_000,
        least: 1_000,
    });
    const outcome = `${bulk.data?.status} ${bulk.data?.failed_rows}`;
    const errors = useLive(
        operation + outcome,
        (signal) => get<Page<ErrorGroup>>(path + "/errors/summary", {}, signal),
        { concerns: () => false, every: 15_000 },
    );
    const eligible = useLive(
        operation + outcome,
        (signal) => get<Eligibility>(path + "/retry/eligibility", {}, signal),
        { concerns: () => false, every: 15_000 },
    );
    const reload = () => {
        bulk.reload();
        errors.reload();
        eligible.reload();
    };
    const { ask, dialog } = useAsk(reload);
    const act = (b: BulkDetail, action: "cancel" | "pause" | "resume" | "retry", verb: string, body: unknown = {}) =>
        ask({
            title: `${verb} ${b.definition}?`,
            verb: `${verb} the operation`,
            effect: bulkEffect(b, action),
            danger: action === "cancel",
            act: () => post(`${path}/${action}`, body),
        });
    const [trouble, setTrouble] = useState<unknown>(null);
    const exportRows = (state: string) =>
        download(`${path}/export`, { mode: "report", format: "csv", state }).then(() => setTrouble(null), setTrouble);
    return (
        <Show of={bulk}>
            {(b) => (
                <>
                    <Head
                        title={
                            <>
                                {b.definition} <State s={b.status} />{" "}
                                {b.paused_at && <span class="state wait">paused</span>}
                            </>
                        }
                        sub={
                            <>
                                <span class="mono select">{b.operation}</span> · version {b.version} ·{" "}
                                <a href={link(["bulks"])}>all operations</a>
                                <In of={b} />
                            </>
                        }
                    >
                        {may && eligible.data?.eligible && (
                            <button class="primary" onClick={() => act(b, "retry", "Retry")}>
                                Retry…
                            </button>
                        )}
                        {may && bulkEffect(b, "resume").allowed && (
                            <button class="primary" onClick={() => act(b, "resume", "Resume")}>
                                Resume…
                            </button>
                        )}
                        {may && bulkEffect(b, "pause").allowed && (
                            <button onClick={() => act(b, "pause", "Pause")}>Pause…</button>
                        )}
                        {may && bulkEffect(b, "cancel").allowed && (
                            <button class="danger" onClick={() => act(b, "cancel", "Cancel")}>
                                Cancel…
                            </button>
                        )}
                        <button onClick={() => void exportRows("")}>Export CSV</button>
                        {b.failed_rows > 0 && <button onClick={() => void exportRows("Failed")}>Export failed</button>}
                    </Head>
                    {trouble !== null && <Trouble error={trouble} />}
                    <div class="cards">
                        <Status b={b} />
                        <Card title="Steps">
                            <Table
                                of={b.steps ?? []}
                                empty="The definition is gone."
                                rowKey={(s) => String(s.step_index)}
                                columns={[
                                    { head: "#", kind: "num", cell: (s) => s.step_index },
                                    {
                                        head: "Step",
                                        kind: "grow",
                                        cell: (s) => (
                                            <a href={link(["bulks", operation], { step: s.step_name })}>
                                                {s.step_name}
                                            </a>
                                        ),
                                    },
                                    { head: "Kind", cell: (s) => <span class="faint">{s.kind}</span> },
                                ]}
                            />
                            <h3>Retry</h3>
                            <Show of={eligible}>
                                {(e) => (
                                    <p>
                                        {e.eligible ? (
                                            <span class="state good">can be retried</span>
                                        ) : (
                                            <>
                                                <span class="state off">cannot be retried</span>{" "}
                                                {e.message ?? reasons[e.reason] ?? e.reason}
                                            </>
                                        )}
                                    </p>
                                )}
                            </Show>
                        </Card>
                        <Card title="Errors" wide note="by step, type and code">
                            <Show of={errors}>
                                {({ items }) => (
                                    <Table
                                        of={items}
                                        empty="No row failed."
                                        rowKey={(g) => g.step_index + g.error_type + g.code}
                                        columns={[
                                            { head: "Step", cell: (g) => g.step_name },
                                            {
                                                head: "Type",
                                                cell: (g) => (
                                                    <>
                                                        {g.error_type} {g.code && <code>{g.code}</code>}
                                                    </>
                                                ),
                                            },
                                            { head: "Rows", kind: "num", cell: (g) => <Num n={g.rows} /> },
                                            {
                                                head: "For example",
                                                kind: "grow",
                                                cell: (g) => (
                                                    <>
                                                        <a
                                                            href={link(["bulks", operation], {
                                                                ...query,
                                                                row: g.first_row,
                                                            })}
                                                        >
                                                            row {g.first_row}
                                                        </a>
                                                        : {g.example}
                                                    </>
                                                ),
                                            },
                                            {
                                                head: "What to do",
                                                cell: (g) =>
                                                    may && eligible.data?.eligible && g.step_index >= 0 ? (
                                                        <button
                                                            onClick={() =>
                                                                act(b, "retry", "Retry", {
                                                                    error_types: [g.error_type],
                                                                    steps: [g.step_name],
                                                                })
                                                            }
                                                        >
                                                            Retry these…
                                                        </button>
                                                    ) : null,
                                            },
                                        ]}
                                    />
                                )}
                            </Show>
                        </Card>
                        {query.row && (
                            <BulkRowCard operation={operation} row={query.row} query={query} version={outcome} />
                        )}
                        {!["Pending", "Completed", "Failed", "Cancelled"].includes(b.status) && (
                            <BulkSignals operation={operation} done={bulk.reload} concerns={concerns} />
                        )}
                        <BulkRows
                            operation={operation}
                            query={query}
                            steps={b.steps ?? []}
                            concerns={concerns}
                            done={reload}
                        />
                    </div>
                    {dialog}
                </>
            )}
        </Show>
    );
}
