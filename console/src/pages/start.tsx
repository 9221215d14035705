// Starting a task by hand: a template, a context, and whether the same work was started before.
import { useState } from "preact/hooks";
import { post } from "../api";
import { go, link } from "../router";
import type { TaskDetail, Template } from "../types";
import { Dialog } from "../ui/dialog";
import { Trouble } from "../ui/parts";

const named = (t: Template) => `${t.namespace} / ${t.name} ${t.version}`;

export function StartDialog({
    templates,
    chosen,
    close,
}: {
    templates: Template[];
    chosen: string;
    close: () => void;
}) {
    const first = templates.find((t) => t.name === chosen) ?? templates[0];
    const [template, setTemplate] = useState(first ? named(first) : "");
    const [context, setContext] = useState("{}");
    const [key, setKey] = useState("");
    const [busy, setBusy] = useState(false);
    const [error, setError] = useState<unknown>(null);
    const submit = async (e: Event) => {
        e.preventDefault();
        setBusy(true);
        setError(null);
        try {
            const { name, namespace, version } = templates.find((t) => named(t) === template)!;
            const made = await post<TaskDetail>("/v1/tasks", {
                name,
                namespace,
                version,
                context: JSON.parse(context),
                ...(key.trim() ? { identity_key: key.trim() } : {}),
            });
            close();
            go(link(["tasks", made.task_uuid]));
        } catch (problem) {
            setError(problem instanceof SyntaxError ? new Error("Not valid JSON: " + problem.message) : problem);
            setBusy(false);
        }
    };
    return (
        <Dialog title="Start a task" close={close}>
            <form onSubmit={submit}>
                <label class="field">
                    <span>Template</span>
                    <select
                        name="template"
                        required
                        value={template}
                        onChange={(e) => setTemplate(e.currentTarget.value)}
                    >
                        {templates.map((t) => (
                            <option key={named(t)} value={named(t)}>
                                {named(t)}
                            </option>
                        ))}
                    </select>
                </label>
                <label class="field">
                    <span>Context (JSON)</span>
                    <textarea
                        class="mono"
                        name="context"
                        rows={6}
                        value={context}
                        spellcheck={false}
                        onInput={(e) => setContext(e.currentTarget.value)}
                    />
                </label>
                <label class="field">
                    <span>Identity key (optional; by the template otherwise)</span>
                    <input name="key" autocomplete="off" value={key} onInput={(e) => setKey(e.currentTarget.value)} />
                </label>
                {error !== null && <Trouble error={error} />}
                <div class="buttons">
                    <button
                        type="button"
                        onClick={(e) => (e.currentTarget.closest("dialog") as HTMLDialogElement).close()}
                    >
                        Leave it
                    </button>
                    <button class="primary" disabled={busy} type="submit">
                        {busy ? "…" : "Start the task"}
                    </button>
                </div>
            </form>
        </Dialog>
    );
}
