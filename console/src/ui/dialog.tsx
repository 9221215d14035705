// A confirmation before an action. The browser's own modal dialog keeps the focus inside,
// closes on Escape and returns the focus.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Trouble } from "./parts";
import type { Effect } from "../effects";

export interface Ask {
    title: string;
    effect: Effect;
    verb: string;
    danger?: boolean;
    /** Whether a reason can be given ("may") or is required ("must"). */
    reason?: "may" | "must";
    /** The label of a JSON value to enter. */
    value?: string;
    act: (reason: string, value: unknown) => Promise<unknown>;
}

export function Dialog({
    title,
    close,
    children,
    wide,
}: {
    title: string;
    close: () => void;
    children: ComponentChildren;
    wide?: boolean;
}) {
    const ref = useRef<HTMLDialogElement>(null);
    const name = useId();
    useEffect(() => {
        const before = document.activeElement as HTMLElement | null;
        ref.current!.showModal();
        return () => before?.focus();
    }, []);
    return (
        <dialog
            ref={ref}
            class={wide ? "wide" : undefined}
            aria-labelledby={name}
            onClose={close}
            onClick={(e) => {
                if (e.target === ref.current) ref.current!.close();
            }}
        >
            <div class="dialog">
                <h2 id={name}>{title}</h2>
                {children}
            </div>
        </dialog>
    );
}

export function AskDialog({ ask, close, done }: { ask: Ask; close: () => void; done: () => void }) {
    const [reason, setReason] = useState("");
    const [value, setValue] = useState("{}");
    const [busy, setBusy] = useState(false);
    const [error, setError] = useState<unknown>(null);
    const submit = async (e: Event) => {
        e.preventDefault();
        setBusy(true);
        setError(null);
        try {
            await ask.act(reason.trim(), ask.value ? JSON.parse(value) : null);
            done();
            close();
        } catch (problem) {
            setError(problem instanceof SyntaxError ? new Error("Not valid JSON: " + problem.message) : problem);
            setBusy(false);
        }
    };
    return (
        <Dialog title={ask.title} close={close}>
            <form onSubmit={submit}>
                <ul class="effects">
                    {ask.effect.lines.map((l) => (
                        <li key={l}>{l}</li>
                    ))}
                </ul>
                {ask.effect.allowed && ask.value && (
                    <label class="field">
                        <span>{ask.value} (JSON)</span>
                        <textarea
                            class="mono"
                            rows={4}
                            value={value}
                            onInput={(e) => setValue(e.currentTarget.value)}
                        />
                    </label>
                )}
                {ask.effect.allowed && ask.reason && (
                    <label class="field">
                        <span>Reason{ask.reason === "may" ? " (optional)" : ""}, for the log</span>
                        <input
                            name="reason"
                            required={ask.reason === "must"}
                            value={reason}
                            onInput={(e) => setReason(e.currentTarget.value)}
                            autoFocus
                            autocomplete="off"
                        />
                    </label>
                )}
                {error !== null && <Trouble error={error} />}
                <div class="buttons">
                    <button
                        type="button"
                        onClick={(e) => (e.currentTarget.closest("dialog") as HTMLDialogElement).close()}
                    >
                        {ask.effect.allowed ? "Leave it" : "Close"}
                    </button>
                    {ask.effect.allowed && (
                        <button class={ask.danger ? "danger" : "primary"} disabled={busy} type="submit">
                            {busy ? "…" : ask.verb}
                        </button>
                    )}
                </div>
            </form>
        </Dialog>
    );
}

/** Buttons that ask for confirmation; one whose action is not allowed says why when it is pressed. */
export function useAsk(done: () => void): { ask: (a: Ask) => void; dialog: ComponentChildren } {
    const [current, set] = useState<Ask | null>(null);
    return { ask: set, dialog: current && <AskDialog ask={current} close={() => set(null)} done={done} /> };
}
