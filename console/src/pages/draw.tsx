// A diagram beside the text that it is drawn from, with what the parser of the database says about it. Nothing here is
// defined: the text is for pawl.define or a lifecycle file.
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, get, segment, text as getText, type Page } from "../api";
import { first, offsetOf, summary, type Checked, type Finding } from "../draw";
import { useLive } from "../live";
import { go, link } from "../router";
import type { MachineLine } from "../types";
import { MachineDiagram } from "../ui/machine";
import { Card, Choice, Empty, Head, Trouble } from "../ui/parts";

/** How long typing pauses before the text is checked, in milliseconds. */
const pause = 350;
const none = new Map<string, { count: number }>();

// the text outlives the page, not the tab
let draft = first;

function Findings({ of, go: show }: { of: Checked; go: (f: Finding) => void }) {
    return (
        <>
            <p role="status" aria-live="polite">
                {summary(of)}.
            </p>
            <ul class="findings">
                {of.findings.map((f) => (
                    <li key={JSON.stringify(f)} class={f.severity}>
                        <button type="button" class="plain" onClick={() => show(f)}>
                            {f.line}:{f.col}
                        </button>{" "}
                        <strong>{f.severity}</strong> {f.message} <span class="mono">{f.code}</span>
                    </li>
                ))}
            </ul>
            {of.hint && <p class="hint">{of.hint}</p>}
        </>
    );
}

/** The findings of a text, checked when typing pauses; those of before stay until then. */
function useChecked(text: string): { checked: Checked | null; drawn: string | null; error: unknown } {
    const [state, set] = useState<{ checked: Checked | null; drawn: string | null; error: unknown }>({
        checked: null,
        drawn: null,
        error: null,
    });
    useEffect(() => {
        const ended = new AbortController();
        const timer = setTimeout(() => {
            ask<Checked>("/v1/diagram/check", { diagram: text }, ended.signal).then(
                (checked) => set((old) => ({ checked, drawn: checked.diagram ?? old.drawn, error: null })),
                (error) => !ended.signal.aborted && set((old) => ({ ...old, error })),
            );
        }, pause);
        return () => {
            clearTimeout(timer);
            ended.abort();
        };
    }, [text]);
    return state;
}

export function DrawPage({ query }: { query: Record<string, string> }) {
    const { machine = "" } = query;
    const [text, setText] = useState(draft);
    const [kept, keep] = useState<string | null>(null);
    const [problem, setProblem] = useState<unknown>(null);
    const area = useRef<HTMLTextAreaElement>(null);
    const { checked, drawn, error } = useChecked(text);
    const machines = useLive("machines", (signal) => get<Page<MachineLine>>("/v1/machines", {}, signal), {
        concerns: () => false,
        every: 60_000,
    });
    const change = (now: string) => {
        draft = now;
        setText(now);
    };
    useEffect(() => {
        if (!machine) return;
        const ended = new AbortController();
        getText(`/v1/machines/${segment(machine)}/diagram`, ended.signal).then(
            (opened) => {
                if (draft !== first && draft !== opened) keep(draft);
                setProblem(null);
                change(opened);
            },
            (e) => !ended.signal.aborted && setProblem(e),
        );
        return () => ended.abort();
    }, [machine]);
    const show = (f: Finding) => {
        const at = offsetOf(text, f.line, f.col);
        area.current!.focus();
        area.current!.setSelectionRange(at, at);
    };
    return (
        <>
            <Head title="Draw" sub="A state diagram as it is typed. It is checked, and not defined." />
            <div class="filters">
                <Choice
                    label="Open a machine"
                    value={machine}
                    none="–"
                    set={(v) => go(link(["draw"], { machine: v }), true)}
                    of={(machines.data?.items ?? []).map((m): [string, string] => [m.machine, m.machine])}
                />
                {kept !== null && (
                    <button
                        class="plain"
                        onClick={() => {
                            change(kept);
                            keep(null);
                            go(link(["draw"]), true);
                        }}
                    >
                        Back to the text before
                    </button>
                )}
            </div>
            {problem !== null && <Trouble error={problem} />}
            <div class="cards draw">
                <Card title="Text">
                    <textarea
                        ref={area}
                        class="mono"
                        aria-label="Mermaid text of the diagram"
                        aria-describedby="findings"
                        rows={20}
                        spellcheck={false}
                        autocomplete="off"
                        maxLength={100_000}
                        value={text}
                        onInput={(e) => change(e.currentTarget.value)}
                    />
                    <div id="findings">
                        {error !== null && <Trouble error={error} />}
                        {checked && <Findings of={checked} go={show} />}
                    </div>
                </Card>
                <Card
                    title="Diagram"
                    note={checked && checked.diagram === null && drawn ? "of the last text without errors" : undefined}
                >
                    {drawn ? (
                        <MachineDiagram text={drawn} counts={none} label="State diagram of the text" bare />
                    ) : (
                        <Empty>{checked ? "The text has errors." : "Loading…"}</Empty>
                    )}
                </Card>
            </div>
        </>
    );
}
