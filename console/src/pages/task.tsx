import { get, post } from "../api";
import { duration, secondsBetween, spoken } from "../format";
import { stepEffect, taskEffect, type StepAction, type TaskAction } from "../effects";
import { useLive, useMay, useNow } from "../live";
import { go, link } from "../router";
import type { Step, TaskDetail } from "../types";
import { useAsk, type Ask } from "../ui/dialog";
import { Graph } from "../ui/graph";
import { Ago, Bar, Card, Empty, Facts, Head, Id, Json, Show, State, Table, Trouble } from "../ui/parts";
import { Timeline } from "../ui/timeline";
import { StepCard } from "./step";

const taskVerbs: Record<TaskAction, string> = { retry: "Retry", cancel: "Cancel", resolve: "Resolve", give_up: "Give up" };

function note(step: Step, now: number): string {
    if (step.state === "waiting_for_retry" && step.next_retry_at) return "again in " + duration(Math.max(0, secondsBetween(new Date(now).toISOString(), step.next_retry_at) ?? 0));
    if (step.seconds !== null && step.seconds !== undefined && step.attempts > 0) return duration(step.seconds) + (step.attempts > 1 ? ` · try ${step.attempts}` : "");
    return step.attempts > 1 ? `try ${step.attempts} of ${step.max_attempts}` : "";
}

function Steps({ task, chosen }: { task: TaskDetail; chosen: string | null }) {
    const now = useNow();
    const nodes = task.steps.map((s) => ({ id: s.step_uuid, label: s.name, state: s.state, note: note(s, now) }));
    const choose = (id: string) => go(link(["tasks", task.task_uuid], { step: id === chosen ? null : id }), true);
    return (
        <Card title="Steps" wide note={`${task.steps_satisfied} of ${task.steps_total} done`}>
            {nodes.length === 0 ? <Empty>The task has no steps.</Empty>
                : <Graph nodes={nodes} edges={task.edges.map((e) => ({ from: e.parent, to: e.child }))} chosen={chosen} choose={choose} label="Steps and what waits for what" />}
        </Card>
    );
}

function StepTable({ task }: { task: TaskDetail }) {
    return (
        <Card title="Steps as a list" wide>
            <Table of={task.steps} empty="No steps." rowKey={(s) => s.step_uuid} columns={[
                { head: "Step", kind: "grow", cell: (s) => <a href={link(["tasks", task.task_uuid], { step: s.step_uuid })}>{s.name}</a> },
                { head: "State", cell: (s) => <State s={s.state} /> },
                { head: "Tries", kind: "num", cell: (s) => `${s.attempts}/${s.max_attempts}` },
                { head: "Took", kind: "num", cell: (s) => duration(s.seconds) },
                { head: "Handler", cell: (s) => <code>{s.handler}</code> },
                { head: "Owner", cell: (s) => (s.worker ? <Id id={s.worker} /> : <span class="faint">–</span>) },
            ]} />
        </Card>
    );
}

export function TaskPage({ task: id, step: chosen }: { task: string; step: string | null }) {
    const may = useMay();
    const path = "/v1/tasks/" + encodeURIComponent(id);
    const task = useLive(id, (signal) => get<TaskDetail>(path, {}, signal), { concerns: (t) => t.relation.startsWith("pawl_dag.") && JSON.stringify(t.key).includes(id), every: 3_000 });
    const { ask, dialog } = useAsk(task.reload);
    const askTask = (t: TaskDetail, action: TaskAction): Ask => ({
        title: `${taskVerbs[action]} ${t.name}?`, verb: `${taskVerbs[action]} the task`, effect: taskEffect(t, action), danger: action === "cancel" || action === "give_up",
        reason: action === "resolve" || action === "give_up" ? "must" : "may", act: (reason) => post(`${path}/${action}`, { reason: reason || null }),
    });
    const askStep = (t: TaskDetail, s: Step, action: StepAction): Ask => ({
        title: `${{ reset: "Retry", resolve: "Resolve", complete: "Complete", cancel: "Cancel" }[action]} ${s.name}?`,
        verb: { reset: "Retry the step", resolve: "Resolve the step", complete: "Complete the step", cancel: "Cancel the step" }[action],
        effect: stepEffect(t, s, action), danger: action === "cancel", reason: action === "cancel" ? "may" : "must", value: action === "complete" ? "Result" : undefined,
        act: (reason, result) => post(`${path}/workflow_steps/${s.step_uuid}/${action}`, { reason: reason || null, ...(action === "complete" ? { result } : {}) }),
    });
    return (
        <Show of={task}>{(t) => {
            const step = t.steps.find((s) => s.step_uuid === chosen);
            const failed = t.steps.filter((s) => s.state === "error" && !s.optional);
            return (
                <>
                    <Head title={<>{t.name} <State s={t.state} /></>} sub={<><span class="mono select">{t.task_uuid}</span> · version {t.version} · <a href={link(["tasks"], { template: t.name })}>others of this template</a></>}>
                        {may && (Object.keys(taskVerbs) as TaskAction[]).filter((a) => taskEffect(t, a).allowed).map((a) => (
                            <button key={a} class={a === "retry" ? "primary" : a === "cancel" ? "danger" : ""} onClick={() => ask(askTask(t, a))}>{taskVerbs[a]}…</button>
                        ))}
                    </Head>
                    {failed.length > 0 && <p class="banner bad">{failed.length === 1 ? "A step has" : `${failed.length} steps have`} failed: {failed.slice(0, 4).map((s, i) => <>{i > 0 && ", "}<a href={link(["tasks", id], { step: s.step_uuid })}>{s.name}</a></>)}.{t.execution && <> Recommended: {spoken(t.execution.recommended_action)}.</>}</p>}
                    <Steps task={t} chosen={chosen} />
                    {step && <StepCard task={t} step={step} may={may} act={(action) => ask(askStep(t, step, action))} />}
                    {chosen && !step && <Trouble error={new Error("The task has no such step.")} />}
                    <div class="cards">
                        <Card title="Task">
                            <Facts of={[
                                ["Progress", <Bar done={t.steps_satisfied} failed={t.steps_failed} of={t.steps_total} />],
                                ["Created", <Ago t={t.created_at} />], ["In this state since", <Ago t={t.entered_at} />], ["Ended", <Ago t={t.completed_at} />], ["Deadline", <Ago t={t.deadline_at} />],
                                ["Health", t.execution ? spoken(t.execution.health_status) : "–"], ["Priority", t.priority], ["Namespace", t.namespace],
                                ["Key", <span class="mono select">{t.identity_key}</span>], ["Correlation", <a class="mono" href={link(["tasks"], { key: t.correlation_id })}>{t.correlation_id}</a>],
                                ...(t.error ? [["Error", <Json value={t.error} open />] as [string, preact.ComponentChildren]] : []),
                            ]} />
                        </Card>
                        <Card title="Context"><Json value={t.context} open /></Card>
                        <Card title="What happened" wide note={<a href={link(["row"], { relation: "pawl_dag.tasks", key: t.task_uuid })}>whole timeline</a>}><Timeline of={t.transitions} /></Card>
                        <StepTable task={t} />
                    </div>
                    {dialog}
                </>
            );
        }}</Show>
    );
}
