// What an action will do: sentences for the dialogs, computed from the data on the screen. Pure.
import { many } from "./format";
import type { Bulk, FlowDetail, Step, TaskDetail } from "./types";

export const finished = new Set(["complete", "cancelled", "resolved_manually"]);
const ended = new Set(["complete", "error", "cancelled", "resolved_manually"]);

export type TaskAction = "retry" | "cancel" | "resolve" | "give_up";
export type StepAction = "retry" | "resolve" | "complete" | "cancel";

export interface Effect {
    allowed: boolean;
    /** Sentences; the first says the most important thing. */
    lines: string[];
}

const no = (line: string): Effect => ({ allowed: false, lines: [line] });

export function names(steps: { name: string }[], most = 5): string {
    const shown = steps
        .slice(0, most)
        .map((s) => s.name)
        .join(", ");
    return steps.length > most ? `${shown} and ${steps.length - most} more` : shown;
}

export function taskEffect(task: TaskDetail, action: TaskAction): Effect {
    const open = task.workflow_steps.filter((s) => !finished.has(s.state));
    const failed = task.workflow_steps.filter((s) => s.state === "error" && !s.optional);
    const running = task.workflow_steps.filter((s) => s.state === "in_progress");
    const done = task.workflow_steps.filter((s) => s.state === "complete" || s.state === "resolved_manually");
    switch (action) {
        case "retry":
            if (task.state !== "blocked_by_failures" && task.state !== "error")
                return no("Only a task that is blocked by failures, or in error, can be retried.");
            return {
                allowed: true,
                lines: [
                    failed.length > 0
                        ? `${many(failed.length, "failed step")} (${names(failed)}) will get all attempts back and run again.`
                        : "The task continues from where it timed out.",
                    `${many(done.length, "finished step")} will keep ${done.length === 1 ? "its" : "their"} result and not run again.`,
                ],
            };
        case "cancel":
        case "resolve": {
            if (ended.has(task.state)) return no("The task has ended.");
            const verb = action === "cancel" ? "cancelled" : "closed as resolved by hand";
            const lines = [`The task will be ${verb}. This cannot be undone.`];
            if (open.length > 0)
                lines.push(
                    `${many(open.length, "step")} that ${open.length === 1 ? "is" : "are"} not finished (${names(open)}) will be ${verb} with it.`,
                );
            if (running.length > 0)
                lines.push(
                    `${many(running.length, "worker")} ${running.length === 1 ? "is" : "are"} working on it now; what they report later will be rejected.`,
                );
            return { allowed: true, lines };
        }
        case "give_up":
            if (task.state !== "blocked_by_failures")
                return no("Only a task that is blocked by failures can be given up.");
            return {
                allowed: true,
                lines: [
                    "The task will end in error, and its steps can no longer be claimed.",
                    "A retry can start it again later.",
                ],
            };
    }
}

/** The steps that depend on a step, directly or not. */
export function behind(task: TaskDetail, step: Step): Step[] {
    const reached = new Set<string>();
    const open = [step.step_uuid];
    for (let id = open.pop(); id !== undefined; id = open.pop()) {
        for (const [parent, child] of task.edges) {
            if (parent === id && !reached.has(child)) {
                reached.add(child);
                open.push(child);
            }
        }
    }
    return task.workflow_steps.filter((s) => reached.has(s.step_uuid));
}

export function stepEffect(task: TaskDetail, step: Step, action: StepAction): Effect {
    const waiting = behind(task, step).filter((s) => !finished.has(s.state));
    const goOn =
        waiting.length > 0
            ? `${many(waiting.length, "step")} that depend on it (${names(waiting)}) can continue.`
            : "No step waits for it.";
    switch (action) {
        case "retry":
            if (step.state !== "error") return no("Only a step in error gets its attempts back.");
            return {
                allowed: true,
                lines: [`${step.name} will get its ${step.max_attempts} attempts back and run again.`],
            };
        case "resolve":
            if (finished.has(step.state)) return no("The step has ended.");
            return { allowed: true, lines: [`${step.name} will count as done, without a result.`, goOn] };
        case "complete":
            if (finished.has(step.state)) return no("The step has ended.");
            return {
                allowed: true,
                lines: [
                    `${step.name} will be complete with the result that you give; the steps that depend on it can read it.`,
                    goOn,
                ],
            };
        case "cancel":
            if (finished.has(step.state)) return no("The step has ended.");
            return {
                allowed: true,
                lines: [
                    `${step.name} will be cancelled. This cannot be undone.`,
                    waiting.length > 0
                        ? `${many(waiting.length, "step")} that depend on it (${names(waiting)}) will be cancelled with it.`
                        : "No step waits for it.",
                ],
            };
    }
}

export const bulkEnded = new Set(["Completed", "CompletedWithErrors", "Failed", "Cancelled"]);

export function bulkEffect(bulk: Bulk, action: "cancel" | "pause" | "resume" | "retry"): Effect {
    const left = Math.max(0, bulk.total_rows - bulk.processed_rows);
    switch (action) {
        case "cancel":
            if (bulkEnded.has(bulk.status)) return no("The operation has ended.");
            return {
                allowed: true,
                lines: [
                    left > 0
                        ? `${many(left, "row")} without an outcome will be cancelled. This cannot be undone.`
                        : "Rows that have not started will be cancelled. This cannot be undone.",
                    `${many(bulk.successful_rows, "row")} that succeeded and ${many(bulk.failed_rows, "row")} that failed stay as they are.`,
                ],
            };
        case "pause":
            if (bulkEnded.has(bulk.status) || bulk.paused_at)
                return no(bulk.paused_at ? "It is paused." : "The operation has ended.");
            return {
                allowed: true,
                lines: [
                    "No more rows will be started; rows that workers have claimed will be finished.",
                    "Resume continues from there.",
                ],
            };
        case "resume":
            return bulk.paused_at
                ? { allowed: true, lines: ["Workers will continue with the remaining rows."] }
                : no("It is not paused.");
        case "retry":
            if (bulk.status !== "CompletedWithErrors")
                return no("Only an operation that completed with errors can be retried.");
            return {
                allowed: true,
                lines: [
                    `Failed rows (${bulk.failed_rows}) will start again at the step that failed.`,
                    "Steps that succeeded are not repeated; rows that failed validation are left out.",
                ],
            };
    }
}

export function flowEffect(flow: FlowDetail, action: "suspend" | "resume" | "run"): Effect {
    const busy = flow.atoms.filter((a) => a.state === "RUNNING" || a.state === "REVERTING");
    switch (action) {
        case "suspend":
            if (flow.state !== "RUNNING") return no("Only a running flow can be suspended.");
            return {
                allowed: true,
                lines: [
                    "Nothing more of the flow will be begun.",
                    busy.length > 0
                        ? `${names(busy)} will be finished first; until then the flow is suspending.`
                        : "Nothing is under way, so it rests at once.",
                ],
            };
        case "resume":
            if (!["SUSPENDED", "SUSPENDING"].includes(flow.state)) return no("Only a suspended flow can be resumed.");
            return { allowed: true, lines: ["The flow goes on from where it was suspended."] };
        case "run":
            if (!["PENDING", "SUSPENDED", "FAILURE"].includes(flow.state))
                return no("Only a pending, suspended or failed flow can be run.");
            return {
                allowed: true,
                lines: [
                    flow.state === "FAILURE"
                        ? "What failed is tried again, in the direction the flow was going."
                        : "The flow begins.",
                ],
            };
    }
}
