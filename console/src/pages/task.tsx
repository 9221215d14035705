import { get, post, segment, type Page } from "../api";
import { duration, problemText, secondsBetween, spoken } from "../format";
import { stepEffect, taskEffect, type StepAction, type TaskAction } from "../effects";
import { useLive, useMay, useNow } from "../live";
import { go, link } from "../router";
import type { Execution, Move, Step, TaskDetail, Timing } from "../types";
import { useAsk, type Ask } from "../ui/dialog";
import { In } from "../ui/databases";
import { Graph } from "../ui/graph";
import { Ago, Bar, Card, Empty, Facts, Head, Json, Owner, Show, State, Trouble } from "../ui/parts";
import { Table } from "../ui/table";
import { Timeline } from "../ui/timeline";
import { StepCard } from "./step";

const taskVerbs: Record<TaskAction, string> = {
    retry: "Retry",
    cancel: "Cancel",
    resolve: "Resolve",
    give_up: "Give up",
};

function seconds(timing: Timing | undefined, now: number): number | null {
    return timing ? secondsBetween(timing.began_at, timing.ended_at ?? new Date(now).toISOString()) : null;
}

function note(step: Step, timing: Timing | undefined, now: number): string {
    if (step.state === "waiting_for_retry" && step.next_retry_at)
        return (
            "again in " + duration(Math.max(0, secondsBetween(new Date(now).toISOString(), step.next_retry_at) ?? 0))
        );
    const took = seconds(timing, now);
    return [took === null ? "" : duration(took), step.attempts > 1 ? `try ${step.attempts}` : ""]
        .filter(Boolean)
        .join(" · ");
}

type Timings = Map<string, Timing>;

function Steps({ task, chosen, timings }: { task: TaskDetail; chosen: string | null; timings: Timings }) {
    const now = useNow();
    const nodes = task.workflow_steps.map((s) => ({
        id: s.step_uuid,
        label: s.name,
        state: s.state,
        note: note(s, timings.get(s.step_uuid), now),
    }));
    const choose = (id: string) => go(link(["tasks", task.task_uuid], { step: id === chosen ? null : id }), true);
    return (
        <Card title="Steps" wide note={`${task.steps.satisfied} of ${task.steps.total} done`}>
            {nodes.length === 0 ? (
                <Empty>The task has no steps.</Empty>
            ) : (
                <Graph
                    nodes={nodes}
                    edges={task.edges.map(([from, to]) => ({ from, to }))}
                    chosen={chosen}
                    choose={choose}
                    label="Steps and their dependencies"
                />
            )}
        </Card>
    );
}

function StepTable({ task, timings }: { task: TaskDetail; timings: Timings }) {
    const now = useNow();
    return (
        <Card title="Steps as a list" wide>
            <Table
                of={task.workflow_steps}
                empty="No steps."
                rowKey={(s) => s.step_uuid}
                columns={[
                    {
                        head: "Step",
                        kind: "grow",
                        cell: (s) => <a href={link(["tasks", task.task_uuid], { step: s.step_uuid })}>{s.name}</a>,
                    },
                    { head: "State", cell: (s) => <State s={s.state} /> },
                    { head: "Tries", kind: "num", cell: (s) => `${s.attempts}/${s.max_attempts}` },
                    { head: "Took", kind: "num", cell: (s) => duration(seconds(timings.get(s.step_uuid), now)) },
                    { head: "Handler", cell: (s) => <code>{s.handler}</code> },
                    { head: "Owner", cell: (s) => <Owner name={s.worker} /> },
                ]}
            />
        </Card>
    );
}

export function TaskPage({ task: id, step: chosen }: { task: string; step: string | null }) {
    const may = useMay("pawl_dag.retry_task");
    const path = "/v1/tasks/" + segment(id);
    const task = useLive(id, (signal) => get<TaskDetail>(path, {}, signal), {
        concerns: (t) => t.relation.startsWith("pawl_dag.") && JSON.stringify(t.key).includes(id),
        every: 3_000,
    });
    const version = JSON.stringify([task.data?.state, task.data?.entered_at, task.data?.steps]);
    const rest = { concerns: () => false, every: 30_000 };
    const execution = useLive(id + version, (signal) => get<Execution>(path + "/context", {}, signal), rest);
    const moves = useLive(
        id + version,
        (signal) => get<Page<Move>>(path + "/transitions", { limit: 500 }, signal),
        rest,
    );
    const timed = useLive(id + version, (signal) => get<Page<Timing>>(path + "/timings", {}, signal), rest);
    const timings = new Map((timed.data?.items ?? []).map((x) => [x.step_uuid, x]));
    const { ask, dialog } = useAsk(task.reload);
    const askTask = (t: TaskDetail, action: TaskAction): Ask => ({
        title: `${taskVerbs[action]} ${t.name}?`,
        verb: `${taskVerbs[action]} the task`,
        effect: taskEffect(t, action),
        danger: action === "cancel" || action === "give_up",
        reason: action === "resolve" || action === "give_up" ? "must" : "may",
        act: (reason) => post(`${path}/${action}`, { reason: reason || null }),
    });
    const askStep = (t: TaskDetail, s: Step, action: StepAction): Ask => ({
        title: `${{ retry: "Retry", resolve: "Resolve", complete: "Complete", cancel: "Cancel" }[action]} ${s.name}?`,
        verb: {
            retry: "Retry the step",
            resolve: "Resolve the step",
            complete: "Complete the step",
            cancel: "Cancel the step",
        }[action],
        effect: stepEffect(t, s, action),
        danger: action === "cancel",
        reason: action === "cancel" ? "may" : "must",
        value: action === "complete" ? "Result" : undefined,
        act: (reason, result) =>
            post(`${path}/workflow_steps/${s.step_uuid}/${action}`, {
                reason: reason || null,
                ...(action === "complete" ? { result } : {}),
            }),
    });
    return (
        <Show of={task}>
            {(t) => {
                const step = t.workflow_steps.find((s) => s.step_uuid === chosen);
                const failed = t.workflow_steps.filter((s) => s.state === "error" && !s.optional);
                return (
                    <>
                        <Head
                            title={
                                <>
                                    {t.name} <State s={t.state} />
                                </>
                            }
                            sub={
                                <>
                                    <span class="mono select">{t.task_uuid}</span> · version {t.version} ·{" "}
                                    <a href={link(["tasks"], { template: t.name })}>others of this template</a>
                                    <In of={t} />
                                </>
                            }
                        >
                            {may &&
                                (Object.keys(taskVerbs) as TaskAction[])
                                    .filter((a) => taskEffect(t, a).allowed)
                                    .map((a) => (
                                        <button
                                            key={a}
                                            class={a === "retry" ? "primary" : a === "cancel" ? "danger" : ""}
                                            onClick={() => ask(askTask(t, a))}
                                        >
                                            {taskVerbs[a]}…
                                        </button>
                                    ))}
                        </Head>
                        {failed.length > 0 && (
                            <p class="banner bad">
                                {failed.length === 1 ? "A step has" : `${failed.length} steps have`} failed:{" "}
                                {failed.slice(0, 4).map((s, i) => (
                                    <>
                                        {i > 0 && ", "}
                                        <a href={link(["tasks", id], { step: s.step_uuid })}>{s.name}</a>
                                        {s.error !== null && <> ({problemText(s.error)})</>}
                                    </>
                                ))}
                                .{execution.data && <> Recommended: {spoken(execution.data.recommended_action)}.</>}
                            </p>
                        )}
                        <Steps task={t} chosen={chosen} timings={timings} />
                        {step && (
                            <StepCard
                                task={t}
                                step={step}
                                took={seconds(timings.get(step.step_uuid), Date.now())}
                                may={may}
                                act={(action) => ask(askStep(t, step, action))}
                            />
                        )}
                        {chosen && !step && <Trouble error={new Error("The task has no such step.")} />}
                        <div class="cards">
                            <Card title="Task">
                                <Facts
                                    of={[
                                        [
                                            "Progress",
                                            <Bar done={t.steps.satisfied} failed={t.steps.failed} of={t.steps.total} />,
                                        ],
                                        ["Created", <Ago t={t.created_at} />],
                                        ["In this state since", <Ago t={t.entered_at} />],
                                        ["Ended", <Ago t={t.completed_at} />],
                                        ["Deadline", <Ago t={t.deadline_at} />],
                                        ["Health", execution.data ? spoken(execution.data.health_status) : "–"],
                                        ["Priority", t.priority],
                                        ["Namespace", t.namespace],
                                        ["Key", <span class="mono select">{t.identity_key}</span>],
                                        ["Correlation", <span class="mono select">{t.correlation_id}</span>],
                                        ...(t.error
                                            ? [
                                                  ["Error", <Json value={t.error} open />] as [
                                                      string,
                                                      preact.ComponentChildren,
                                                  ],
                                              ]
                                            : []),
                                    ]}
                                />
                            </Card>
                            <Card title="Context">
                                <Json value={t.context} open />
                            </Card>
                            <Card
                                title="What happened"
                                wide
                                note={
                                    <a
                                        href={link(["row"], {
                                            relation: "pawl_dag.tasks",
                                            key: t.task_uuid,
                                            ...(t.database ? { database: t.database } : {}),
                                        })}
                                    >
                                        whole timeline
                                    </a>
                                }
                            >
                                <Show of={moves}>{({ items }) => <Timeline of={items} />}</Show>
                            </Card>
                            <StepTable task={t} timings={timings} />
                        </div>
                        {dialog}
                    </>
                );
            }}
        </Show>
    );
}
