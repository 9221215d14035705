import { type Page, get } from "../api";
import { useLive } from "../live";
import { go, link } from "../router";
import type { Flow, Job } from "../types";
import { usePaged } from "../ui/paged";
import { Ago, Card, Choice, Counts, Head, Id, More, Owner, Search, Show, State } from "../ui/parts";
import { Missing, useColumn } from "../ui/databases";
import { Table } from "../ui/table";

const states = ["PENDING", "RUNNING", "SUSPENDING", "SUSPENDED", "RESUMING", "SUCCESS", "FAILURE", "REVERTED"];

export function FlowsPage({ query }: { query: Record<string, string> }) {
    const { state = "", name = "" } = query;
    const change = (more: Record<string, string>) => go(link(["flows"], { state, name, ...more }), true);
    const concerns = (t: { relation: string }) => t.relation.startsWith("pawl_saga.");
    const flows = usePaged<Flow>("/v1/flows", { state, name, limit: 50 }, (f) => f.flow_uuid, {
        concerns,
        least: 1_500,
    });
    const jobs = useLive("jobs", (signal) => get<Page<Job>>("/v1/jobs", { limit: 20 }, signal), {
        concerns,
        least: 2_000,
    });
    const column = useColumn<Flow>();
    const columnOfJobs = useColumn<Job>();
    return (
        <>
            <Head title="Sagas" sub="Flows that are undone as a whole when they fail." />
            <div class="filters" role="search">
                <Choice label="State" value={state} set={(v) => change({ state: v })} of={states} />
                <Search label="Name" value={name} set={(v) => change({ name: v })} />
            </div>
            <Show of={flows.first}>
                {({ unavailable }) => (
                    <>
                        <Missing of={unavailable} what="flows and jobs" />
                        <Table
                            of={flows.items}
                            empty={
                                state || name
                                    ? !flows.next
                                        ? "No flow matches these filters."
                                        : flows.looking
                                          ? "Searching older flows…"
                                          : "None so far; older flows have not been searched."
                                    : "No flow was started yet."
                            }
                            rowKey={(f) => f.flow_uuid}
                            columns={[
                                {
                                    head: "Flow",
                                    cell: (f) => <Id id={f.flow_uuid} href={link(["flows", f.flow_uuid])} />,
                                },
                                {
                                    head: "Name",
                                    kind: "grow",
                                    cell: (f) => <a href={link(["flows", f.flow_uuid])}>{f.name}</a>,
                                },
                                ...column,
                                {
                                    head: "State",
                                    cell: (f) => (
                                        <>
                                            <State s={f.state} />{" "}
                                            {f.undoing && f.state !== "REVERTED" && (
                                                <span class="state busy">undoing</span>
                                            )}{" "}
                                            {f.broken && <span class="state bad">broken</span>}
                                        </>
                                    ),
                                },
                                { head: "Tasks", cell: (f) => <Counts of={f.tasks} /> },
                                { head: "Run", kind: "num", cell: (f) => f.run },
                                { head: "Created", kind: "num", cell: (f) => <Ago t={f.created_at} /> },
                            ]}
                        />
                        <More next={flows.next} load={flows.more} looking={flows.looking} />
                    </>
                )}
            </Show>
            {jobs.data && jobs.data.items.length > 0 && (
                <Card title="Jobs" wide>
                    <Table
                        of={jobs.data.items}
                        empty="No job was posted."
                        rowKey={(j) => j.job_uuid}
                        columns={[
                            { head: "Job", kind: "grow", cell: (j) => j.name },
                            ...columnOfJobs,
                            { head: "State", cell: (j) => <State s={j.state} /> },
                            { head: "Owner", cell: (j) => <Owner name={j.owner} /> },
                            {
                                head: "Flow",
                                cell: (j) =>
                                    j.flow_uuid ? (
                                        <Id id={j.flow_uuid} href={link(["flows", j.flow_uuid])} />
                                    ) : (
                                        <span class="faint">–</span>
                                    ),
                            },
                            { head: "Posted", kind: "num", cell: (j) => <Ago t={j.created_at} /> },
                        ]}
                    />
                </Card>
            )}
        </>
    );
}
