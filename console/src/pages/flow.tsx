import { get, post, segment, type Page } from "../api";
import { contract } from "../dag";
import { flowEffect } from "../effects";
import { count, problemText } from "../format";
import { useLive, useMay } from "../live";
import { link } from "../router";
import type { Atom, FlowDetail, FlowEvent } from "../types";
import { In } from "../ui/databases";
import { useAsk } from "../ui/dialog";
import { Graph } from "../ui/graph";
import { Ago, Card, Facts, Head, Json, Show, State } from "../ui/parts";
import { Table } from "../ui/table";

function note(a: Atom): string {
    if (a.intention === "REVERT" && a.state !== "REVERTED" && a.state !== "PENDING") return "to be reverted";
    if (a.intention === "RETRY") return "to be retried";
    if (a.progress !== null && a.state === "RUNNING") return Math.round(a.progress * 100) + " %";
    return a.kind === "retry" ? "retry" : "";
}

const runs = ["run", "suspend", "resume"] as const;

export function FlowPage({ flow: id }: { flow: string }) {
    const may = useMay("pawl_saga.suspend");
    const mayResolve = useMay("pawl_saga.resolve");
    const path = "/v1/flows/" + segment(id);
    const flow = useLive(id, (signal) => get<FlowDetail>(path, {}, signal), {
        concerns: (t) => t.relation.startsWith("pawl_saga.") && JSON.stringify(t.key).includes(id),
        every: 3_000,
    });
    const version = JSON.stringify([flow.data?.state, flow.data?.atoms.map((a) => a.state)]);
    const timeline = useLive(
        id + version,
        (signal) => get<Page<FlowEvent>>(path + "/timeline", { limit: 500 }, signal),
        { concerns: () => false, every: 30_000 },
    );
    const { ask, dialog } = useAsk(flow.reload);
    const verb = { run: "Run", suspend: "Suspend", resume: "Resume" };
    const undo = (a: Atom, action: "resolve" | "retry_revert") =>
        ask({
            title: action === "resolve" ? `Was ${a.name} undone by hand?` : `Undo ${a.name} again?`,
            verb: action === "resolve" ? "It is undone" : "Undo it again",
            reason: action === "resolve" ? "must" : "may",
            effect: {
                allowed: true,
                lines:
                    action === "resolve"
                        ? [
                              `${a.name} will count as reverted, though its revert failed.`,
                              "The flow goes on undoing what is before it when it is run.",
                          ]
                        : [`The revert of ${a.name} will be handed out again.`],
            },
            act: (reason) => post(`${path}/atoms/${segment(a.name)}/${action}`, { reason: reason || null }),
        });
    return (
        <Show of={flow}>
            {(f) => {
                const nodes = f.atoms.map((a) => ({
                    id: String(a.node),
                    label: a.name,
                    state: a.state ?? "",
                    note: note(a),
                }));
                const failures = f.atoms.filter((a) => a.failure !== null || a.revert_failure !== null);
                return (
                    <>
                        <Head
                            title={
                                <>
                                    {f.name} <State s={f.state} />{" "}
                                    {f.undoing && f.state !== "REVERTED" && <span class="state busy">undoing</span>}{" "}
                                    {f.broken && <span class="state bad">broken</span>}
                                </>
                            }
                            sub={
                                <>
                                    <span class="mono select">{f.flow_uuid}</span> · run {f.run} ·{" "}
                                    <a href={link(["flows"])}>all flows</a>
                                    <In of={f} />
                                </>
                            }
                        >
                            {may &&
                                runs
                                    .filter(
                                        (a) => flowEffect(f, a).allowed && !(a === "run" && f.state === "SUSPENDED"),
                                    )
                                    .map((a) => (
                                        <button
                                            key={a}
                                            class={a === "suspend" ? "" : "primary"}
                                            onClick={() =>
                                                ask({
                                                    title: `${verb[a]} ${f.name}?`,
                                                    verb: `${verb[a]} the flow`,
                                                    effect: flowEffect(f, a),
                                                    act: () => post(`${path}/${a}`, {}),
                                                })
                                            }
                                        >
                                            {verb[a]}…
                                        </button>
                                    ))}
                        </Head>
                        {f.problem !== null && <p class="banner bad">{problemText(f.problem)}</p>}
                        <Card
                            title="Structure"
                            wide
                            note={`${count(f.atoms.filter((a) => a.kind === "task").length)} tasks`}
                        >
                            <Graph
                                nodes={nodes}
                                edges={contract(
                                    new Set(nodes.map((n) => n.id)),
                                    f.edges.map(([from, to]) => ({ from: String(from), to: String(to) })),
                                )}
                                label="Tasks of the flow and their order"
                            />
                        </Card>
                        <div class="cards">
                            <Card title="Flow">
                                <Facts
                                    of={[
                                        ["Created", <Ago t={f.created_at} />],
                                        ["Inputs", <Json value={f.inputs} label="inputs" open />],
                                    ]}
                                />
                            </Card>
                            <Card title="Failures">
                                <Table
                                    of={failures}
                                    empty="Nothing failed."
                                    rowKey={(a) => String(a.node)}
                                    columns={[
                                        {
                                            head: "Task",
                                            cell: (a) => (
                                                <>
                                                    {a.name} <State s={a.state} />
                                                </>
                                            ),
                                        },
                                        {
                                            head: "Problem",
                                            kind: "grow",
                                            cell: (a) => problemText(a.revert_failure ?? a.failure),
                                        },
                                        {
                                            head: "What to do",
                                            cell: (a) =>
                                                mayResolve && a.state === "REVERT_FAILURE" ? (
                                                    <span class="pair">
                                                        <button onClick={() => undo(a, "retry_revert")}>
                                                            Undo again…
                                                        </button>{" "}
                                                        <button onClick={() => undo(a, "resolve")}>
                                                            Mark as undone…
                                                        </button>
                                                    </span>
                                                ) : null,
                                        },
                                    ]}
                                />
                            </Card>
                            <Card title="Runs">
                                <Table
                                    of={f.runs}
                                    empty="Not begun."
                                    rowKey={(r) => String(r.run)}
                                    columns={[
                                        { head: "Run", kind: "num", cell: (r) => r.run },
                                        { head: "Engine", cell: (r) => <State s={r.state} /> },
                                        { head: "Began", cell: (r) => <Ago t={r.began_at} /> },
                                        { head: "Ended", cell: (r) => (r.ended_at ? <Ago t={r.ended_at} /> : "") },
                                    ]}
                                />
                            </Card>
                            <Card title="Tasks" wide>
                                <Table
                                    of={f.atoms}
                                    empty="None."
                                    rowKey={(a) => String(a.node)}
                                    columns={[
                                        {
                                            head: "Task",
                                            kind: "grow",
                                            cell: (a) => (
                                                <>
                                                    {a.name} {a.kind === "retry" && <span class="faint">retry</span>}
                                                </>
                                            ),
                                        },
                                        { head: "State", cell: (a) => <State s={a.state} /> },
                                        {
                                            head: "Intention",
                                            cell: (a) => <span class="faint">{a.intention?.toLowerCase() ?? "–"}</span>,
                                        },
                                        { head: "Waits for", kind: "num", cell: (a) => count(a.blockers) },
                                        {
                                            head: "Owner",
                                            cell: (a) =>
                                                a.worker ? (
                                                    <span class="mono">{a.worker}</span>
                                                ) : (
                                                    <span class="faint">–</span>
                                                ),
                                        },
                                        { head: "Result", cell: (a) => <Json value={a.result} label="result" /> },
                                    ]}
                                />
                            </Card>
                            <Card title="What happened" wide>
                                <Show of={timeline}>
                                    {({ items }) => (
                                        <Table
                                            of={[...items].reverse()}
                                            empty="Nothing yet."
                                            columns={[
                                                { head: "When", kind: "num", cell: (e) => <Ago t={e.created_at} /> },
                                                {
                                                    head: "Task",
                                                    kind: "grow",
                                                    cell: (e) =>
                                                        e.subject === "$flow" ? <strong>the flow</strong> : e.subject,
                                                },
                                                {
                                                    head: "State change",
                                                    cell: (e) => (
                                                        <>
                                                            {e.from_state ? (
                                                                <State s={e.from_state} />
                                                            ) : (
                                                                <span class="faint">new</span>
                                                            )}{" "}
                                                            <span class="arrow">→</span> <State s={e.to_state} />
                                                        </>
                                                    ),
                                                },
                                                {
                                                    head: "Event",
                                                    cell: (e) =>
                                                        e.event ? <code>{e.event}</code> : <span class="faint">–</span>,
                                                },
                                            ]}
                                        />
                                    )}
                                </Show>
                            </Card>
                        </div>
                        {dialog}
                    </>
                );
            }}
        </Show>
    );
}
