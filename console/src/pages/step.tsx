import { get, segment, type Page } from "../api";
import { stepEffect, type StepAction } from "../effects";
import { duration, problemText } from "../format";
import { useLive } from "../live";
import { link } from "../router";
import type { Audit, Step, TaskDetail, WholeStep } from "../types";
import { Ago, Card, Facts, Json, Owner, Show, State } from "../ui/parts";
import { Table } from "../ui/table";
import { Timeline } from "../ui/timeline";

const verbs: Record<StepAction, string> = {
    retry: "Retry",
    complete: "Complete with a result",
    resolve: "Resolve",
    cancel: "Cancel",
};

/** One step: its properties, its result, its audit and its state changes. */
export function StepCard({
    task,
    step,
    took,
    may,
    act,
}: {
    task: TaskDetail;
    step: Step;
    took: number | null;
    may: boolean;
    act: (a: StepAction) => void;
}) {
    const path = `/v1/tasks/${segment(task.task_uuid)}/workflow_steps/${segment(step.step_uuid)}`;
    const key = step.step_uuid + step.state + step.attempts;
    const audit = useLive(key, (signal) => get<Page<Audit>>(path + "/audit", {}, signal), {
        concerns: () => false,
        every: 30_000,
    });
    const whole = useLive(key, (signal) => get<WholeStep>(path, {}, signal), { concerns: () => false, every: 30_000 });
    return (
        <Card
            wide
            title={
                <>
                    {step.name} <State s={step.state} />
                </>
            }
            note={<a href={link(["tasks", task.task_uuid])}>close</a>}
            id="step"
        >
            {may && (
                <div class="actions">
                    {(Object.keys(verbs) as StepAction[])
                        .filter((a) => stepEffect(task, step, a).allowed)
                        .map((a) => (
                            <button
                                key={a}
                                class={a === "cancel" ? "danger" : a === "retry" ? "primary" : ""}
                                onClick={() => act(a)}
                            >
                                {verbs[a]}…
                            </button>
                        ))}
                </div>
            )}
            {step.error !== null && <p class="banner bad">{problemText(step.error)}</p>}
            <div class="split">
                <Facts
                    of={[
                        ["Handler", <code>{step.handler}</code>],
                        [
                            "Tries",
                            `${step.attempts} of ${step.max_attempts}${step.permanent ? ", permanent" : ""}${step.optional ? ", optional" : ""}`,
                        ],
                        ["Last try", <Ago t={step.last_attempted_at} />],
                        ["Took", duration(took)],
                        ["Next try", <Ago t={step.next_retry_at} />],
                        ["Owner", <Owner name={step.worker} />],
                        ["Lease ends", <Ago t={step.lease_until} />],
                        ["Result", <Json value={step.result} label="result" open />],
                        ["Error", <Json value={step.error} label="error" />],
                        ["Id", <span class="mono select">{step.step_uuid}</span>],
                    ]}
                />
                <div>
                    <h3>Audit</h3>
                    <Show of={audit}>
                        {({ items }) => (
                            <Table
                                of={items}
                                empty="No result was reported yet."
                                columns={[
                                    {
                                        head: "Outcome",
                                        kind: "grow",
                                        cell: (a) => (
                                            <span class={a.success ? "state good" : "state bad"}>
                                                {a.success ? "success" : "failure"}
                                            </span>
                                        ),
                                    },
                                    { head: "Worker", cell: (a) => <Owner name={a.worker} /> },
                                    {
                                        head: "Took",
                                        kind: "num",
                                        cell: (a) =>
                                            duration(a.execution_time_ms === null ? null : a.execution_time_ms / 1000),
                                    },
                                    { head: "When", kind: "num", cell: (a) => <Ago t={a.recorded_at} /> },
                                ]}
                            />
                        )}
                    </Show>
                    <h3>State changes</h3>
                    <Show of={whole}>{({ transitions }) => <Timeline of={transitions} />}</Show>
                </div>
            </div>
        </Card>
    );
}
