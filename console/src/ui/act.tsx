// The dialog of an action on many: what a dry run says, the progress, what was done and what was rejected.
import { useEffect, useRef, useState } from "preact/hooks";
import { asOf, begun, carryOut, type Outcome, type Outcomes, type Progress, type Target } from "../actions";
import { post, randomKey } from "../api";
import { count, many } from "../format";
import { Missing } from "./databases";
import { Dialog } from "./dialog";
import { Id, State, Trouble } from "./parts";
import { Table } from "./table";
import type { Kind } from "./ticks";

export interface Choice {
    action: string;
    /** Of the button: "Cancel". */
    verb: string;
    /** What it means, in a sentence. */
    means: string;
    danger?: boolean;
    /** Whether a reason can be given ("may") or is required ("must"). */
    reason?: "may" | "must";
}

const means = (path: string) => ({
    post: (body: unknown, key: string) => post<Outcomes>(path, body, key),
    key: randomKey,
    pause: (ms: number) => new Promise<void>((done) => setTimeout(done, ms)),
});

const words: Record<Outcome["outcome"], [dry: string, done: string]> = {
    changed: ["will change", "changed"],
    unchanged: ["stay as they are", "were so already"],
    rejected: ["will be rejected", "rejected"],
};

function Summary({ of, dry, kind }: { of: Progress; dry: boolean; kind: Kind }) {
    return (
        <>
            <ul class="tally" aria-live="polite">
                {(["changed", "unchanged", "rejected"] as const).map((o) => (
                    <li key={o} class={o === "rejected" && of.rejected > 0 ? "bad" : undefined}>
                        <strong>{count(of[o])}</strong> {words[o][dry ? 0 : 1]}
                    </li>
                ))}
            </ul>
            {of.groups.length > 0 && (
                <div class="groups" tabIndex={0} role="region" aria-label="By state and reason">
                    <Table
                        of={of.groups}
                        empty=""
                        caption="Outcomes by state and reason"
                        columns={[
                            { head: "How many", kind: "num", cell: (g) => count(g.count) },
                            { head: "State", cell: (g) => (g.state ? <State s={g.state} /> : "–") },
                            {
                                head: "Outcome",
                                kind: "grow",
                                cell: (g) => (
                                    <>
                                        {words[g.outcome][dry ? 0 : 1]}
                                        {g.reason && `: ${g.reason}`}{" "}
                                        {g.sqlstate && <span class="faint">SQLSTATE {g.sqlstate}</span>}
                                    </>
                                ),
                            },
                            {
                                head: "Such as",
                                cell: (g) => (
                                    <span class="examples">
                                        {g.examples.slice(0, dry ? 3 : 1).map((id) => (
                                            <Id key={id} id={id} href={kind.href(id)} />
                                        ))}
                                    </span>
                                ),
                            },
                        ]}
                    />
                </div>
            )}
        </>
    );
}

function Rejected({ of, kind }: { of: Progress; kind: Kind }) {
    if (of.failed.length === 0) return null;
    return (
        <details class="rejected">
            <summary>
                {of.failed.length < of.rejected
                    ? `The first ${of.failed.length} of ${count(of.rejected)} that were rejected`
                    : `${many(of.failed.length, kind.one, kind.more)} rejected`}
            </summary>
            <ul>
                {of.failed.map((f) => (
                    <li key={f.id}>
                        <Id id={f.id} href={kind.href(f.id)} /> {f.reason}{" "}
                        <span class="faint">SQLSTATE {f.sqlstate}</span>
                    </li>
                ))}
            </ul>
        </details>
    );
}

interface Given {
    kind: Kind;
    choice: Choice;
    target: Target;
    what: string;
    close: (acted: boolean) => void;
}

export function ActDialog({ kind, choice, target, what, close }: Given) {
    const [dry, setDry] = useState<Progress>(begun);
    const [now, setNow] = useState<Progress | null>(null);
    const [busy, setBusy] = useState(true);
    const [reason, setReason] = useState("");
    const [error, setError] = useState<unknown>(null);
    const stop = useRef(new AbortController());
    const run = async (dryRun: boolean) => {
        const mine = (stop.current = new AbortController());
        setBusy(true);
        setError(null);
        const order = dryRun
            ? { action: choice.action, dry_run: true }
            : { action: choice.action, ...(reason.trim() ? { reason: reason.trim() } : {}) };
        const on = dryRun ? target : asOf(target, kind.until, dry.at);
        const show = (p: Progress) => {
            if (mine === stop.current) (dryRun ? setDry : setNow)(p);
        };
        try {
            show(await carryOut(order, on, means(kind.path), show, mine.signal, dryRun ? dry : (now ?? begun)));
        } catch (problem) {
            if (mine === stop.current) setError(problem);
        }
        if (mine === stop.current) setBusy(false);
    };
    useEffect(() => {
        void run(true);
        return () => stop.current.abort();
    }, []);
    const submit = (e: Event) => {
        e.preventDefault();
        if (!now) setNow(begun);
        void run(false);
    };
    const began = now !== null;
    const looked = began ? now.changed + now.unchanged + now.rejected : 0;
    const ready = dry.done && dry.changed > 0 && !now?.done;
    return (
        <Dialog title={`${choice.verb}: ${what}`} close={() => close(began)} wide>
            <form onSubmit={submit}>
                <p>{choice.means}</p>
                {!began && !dry.done && error === null && <p role="status">Looking which would change…</p>}
                <Missing of={(now ?? dry).unavailable} what={kind.more ?? kind.one + "s"} />
                <Summary of={now ?? dry} dry={!began} kind={kind} />
                {!began && dry.done && dry.changed === 0 && <p>Nothing would change.</p>}
                {began && (
                    <>
                        <progress
                            max={Math.max(looked, dry.changed + dry.unchanged + dry.rejected, 1)}
                            value={now.done ? undefined : looked}
                            hidden={now.done}
                            aria-label="Progress"
                        />
                        <p role="status">
                            {now.done ? "Done." : busy ? "Working…" : "Stopped. What was done stays done."}
                        </p>
                        <Rejected of={now} kind={kind} />
                    </>
                )}
                {ready && !began && choice.reason && (
                    <label class="field">
                        <span>Reason{choice.reason === "may" ? " (optional)" : ""}, for the log</span>
                        <input
                            name="reason"
                            required={choice.reason === "must"}
                            value={reason}
                            onInput={(e) => setReason(e.currentTarget.value)}
                            autocomplete="off"
                        />
                    </label>
                )}
                {error !== null && <Trouble error={error} />}
                <div class="buttons">
                    {began && busy && (
                        <button type="button" onClick={() => stop.current.abort()}>
                            Stop
                        </button>
                    )}
                    <button
                        type="button"
                        onClick={(e) => (e.currentTarget.closest("dialog") as HTMLDialogElement).close()}
                    >
                        {began || (dry.done && dry.changed === 0) ? "Close" : "Leave it"}
                    </button>
                    {ready && !busy && (
                        <button class={choice.danger ? "danger" : "primary"} type="submit">
                            {began ? "Continue" : `${choice.verb} ${many(dry.changed, kind.one, kind.more)}`}
                        </button>
                    )}
                </div>
            </form>
        </Dialog>
    );
}
