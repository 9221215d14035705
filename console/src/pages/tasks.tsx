import { useMemo, useState } from "preact/hooks";
import { get, type Page } from "../api";
import { duration, isId, secondsBetween } from "../format";
import { useLive, useMay, useNow } from "../live";
import { go, link } from "../router";
import type { Task, Template } from "../types";
import { StartDialog } from "./start";
import { usePaged } from "../ui/paged";
import { useTicks, type Kind } from "../ui/ticks";
import { Missing, useColumn } from "../ui/databases";
import { Ago, Bar, Choice, Head, Id, More, Search, Show, State } from "../ui/parts";
import { Table } from "../ui/table";

const states = [
    "pending",
    "initializing",
    "enqueuing_steps",
    "steps_in_process",
    "evaluating_results",
    "waiting_for_dependencies",
    "waiting_for_retry",
    "blocked_by_failures",
    "complete",
    "error",
    "cancelled",
    "resolved_manually",
];
const ages: [string, string][] = [
    ["3600", "the last hour"],
    ["86400", "the last day"],
    ["604800", "the last week"],
];

const kind: Kind = {
    path: "/v1/tasks/actions",
    one: "task",
    until: "created_before",
    href: (id) => link(["tasks", id]),
    choices: [
        {
            action: "retry",
            verb: "Retry",
            reason: "may",
            means: "Tasks that are blocked by failures, or in error, continue from their failed steps. Finished steps keep their results.",
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

/** Each once: a template can be defined in several databases, and the task is started where its namespace is. */
function startable(templates: Template[]): Template[] {
    const named = (t: Template) => JSON.stringify([t.namespace, t.name, t.version]);
    return [...new Map(templates.map((t) => [named(t), t])).values()];
}

export function TasksPage({ query }: { query: Record<string, string> }) {
    const { state = "", template = "", age = "", key = "", search = "" } = query;
    const change = (more: Record<string, string>) =>
        go(link(["tasks"], { state, template, age, key, search, ...more }), true);
    const templates = useLive("templates", (signal) => get<Page<Template>>("/v1/templates", {}, signal), {
        concerns: () => false,
        every: 60_000,
    });
    const since = useMemo(() => (age ? new Date(Date.now() - 1000 * Number(age)).toISOString() : ""), [age]);
    const filter = { state, name: template, identity_key: key, created_after: since, search };
    const tasks = usePaged<Task>("/v1/tasks", { ...filter, limit: 50 }, (t) => t.task_uuid, {
        concerns: (t) => t.relation === "pawl_dag.tasks",
        least: 1_500,
    });
    const names = [...new Set((templates.data?.items ?? []).map((t) => t.name))].sort();
    const now = useNow();
    const column = useColumn<Task>();
    const mayStart = useMay("pawl_dag.start_task");
    const {
        ticks,
        bar,
        dialog: acting,
    } = useTicks({ kind, may: useMay("pawl_dag.retry_task"), filter, done: tasks.first.reload });
    const [starting, setStarting] = useState(false);
    return (
        <>
            <Head title="Tasks">
                {mayStart && (templates.data?.items.length ?? 0) > 0 && (
                    <button class="primary" onClick={() => setStarting(true)}>
                        Start a task…
                    </button>
                )}
            </Head>
            {starting && (
                <StartDialog
                    templates={startable(templates.data?.items ?? [])}
                    chosen={template}
                    close={() => setStarting(false)}
                />
            )}
            <div class="filters" role="search">
                <Choice label="State" value={state} set={(v) => change({ state: v })} of={states} />
                <Choice
                    label="Template"
                    value={template}
                    set={(v) => change({ template: v })}
                    of={names.map((n): [string, string] => [n, n])}
                />
                <Choice label="Created in" value={age} set={(v) => change({ age: v })} of={ages} none="any time" />
                <Search
                    label="Key or id"
                    value={key}
                    set={(v) => (isId(v) ? go(link(["tasks", v])) : change({ key: v }))}
                    placeholder="identity key, or a task"
                />
                <Search
                    label="Text"
                    value={search}
                    set={(v) => change({ search: v })}
                    placeholder="of context, results, errors"
                />
            </div>
            <Show of={tasks.first}>
                {({ unavailable }) => (
                    <>
                        <Missing of={unavailable} what="tasks" />
                        {tasks.items.length > 0 && bar}
                        <Table
                            of={tasks.items}
                            ticks={ticks}
                            empty={
                                state || template || age || key || search
                                    ? !tasks.next
                                        ? "No task matches these filters."
                                        : tasks.looking
                                          ? "Searching older tasks…"
                                          : "None so far; older tasks have not been searched."
                                    : "No task was started yet."
                            }
                            rowKey={(t) => t.task_uuid}
                            columns={[
                                {
                                    head: "Task",
                                    cell: (t) => <Id id={t.task_uuid} href={link(["tasks", t.task_uuid])} />,
                                },
                                {
                                    head: "Template",
                                    kind: "grow",
                                    cell: (t) => <a href={link(["tasks", t.task_uuid])}>{t.name}</a>,
                                },
                                ...column,
                                { head: "State", cell: (t) => <State s={t.state} /> },
                                {
                                    head: "Steps",
                                    kind: "tight",
                                    cell: (t) => (
                                        <Bar done={t.steps.satisfied} failed={t.steps.failed} of={t.steps.total} />
                                    ),
                                },
                                {
                                    head: "Took",
                                    kind: "num",
                                    cell: (t) =>
                                        duration(
                                            secondsBetween(t.created_at, t.completed_at ?? new Date(now).toISOString()),
                                        ),
                                },
                                { head: "Created", kind: "num", cell: (t) => <Ago t={t.created_at} /> },
                            ]}
                        />
                        <More next={tasks.next} load={tasks.more} looking={tasks.looking} />
                    </>
                )}
            </Show>
            {acting}
        </>
    );
}
