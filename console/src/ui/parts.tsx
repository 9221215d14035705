// The small parts that every page is made of.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Problem } from "../api";
import { absolute, ago, brief, count, isId, short, spoken, tone } from "../format";
import { useNow, type Loaded } from "../live";

export function State({ s, tags }: { s: string | null | undefined; tags?: string[] }) {
    return (
        <span class={`state ${tone(s, tags)}`} title={s ?? undefined}>
            {spoken(s)}
        </span>
    );
}

export function Ago({ t }: { t: string | null | undefined }) {
    const now = useNow();
    if (!t) return <span class="faint">–</span>;
    return (
        <time dateTime={t} title={absolute(t)}>
            {ago(t, now)}
        </time>
    );
}

export function Id({ id, href }: { id: string; href?: string }) {
    return href ? (
        <a class="mono" href={href} title={id}>
            {short(id)}
        </a>
    ) : (
        <span class="mono" title={id}>
            {short(id)}
        </span>
    );
}

/** A processor: the id of a worker is shortened, a name is not. */
export function Owner({ name }: { name: string | null | undefined }) {
    if (!name) return <span class="faint">–</span>;
    return isId(name) ? (
        <span title={name}>
            worker <span class="mono">{short(name)}</span>
        </span>
    ) : (
        <span class="mono">{name}</span>
    );
}

export function Num({ n, capped }: { n: number | null | undefined; capped?: boolean }) {
    return <span class="num">{count(n, capped)}</span>;
}

export function Head({
    title,
    sub,
    children,
}: {
    title: ComponentChildren;
    sub?: ComponentChildren;
    children?: ComponentChildren;
}) {
    return (
        <header class="head">
            <div>
                <h1 tabIndex={-1}>{title}</h1>
                {sub && <p class="sub">{sub}</p>}
            </div>
            {children && <div class="actions">{children}</div>}
        </header>
    );
}

export function Card({
    title,
    note,
    children,
    wide,
    id,
}: {
    title?: ComponentChildren;
    note?: ComponentChildren;
    children: ComponentChildren;
    wide?: boolean;
    id?: string;
}) {
    return (
        <section class={wide ? "card wide" : "card"} id={id}>
            {title && (
                <h2>
                    {title}
                    {note !== undefined && <span class="note">{note}</span>}
                </h2>
            )}
            {children}
        </section>
    );
}

export function Empty({ children }: { children: ComponentChildren }) {
    return <p class="empty">{children}</p>;
}

export function Trouble({ error, again }: { error: unknown; again?: () => void }) {
    const p = error instanceof Problem ? error : new Problem(0, error instanceof Error ? error.message : String(error));
    return (
        <div class="trouble" role="alert">
            <strong>{p.title}</strong>
            {p.detail && <p>{p.detail}</p>}
            {p.hint && <p class="hint">{p.hint}</p>}
            <p class="faint">
                {p.status > 0 && <>HTTP {p.status}</>} {p.sqlstate && <>SQLSTATE {p.sqlstate}</>}
                {again && (
                    <>
                        {" "}
                        <button class="plain" onClick={again}>
                            Try again
                        </button>
                    </>
                )}
            </p>
        </div>
    );
}

/** The loaded data, or the error; data from before stays visible under the error. */
export function Show<T>({ of, children }: { of: Loaded<T>; children: (data: T) => ComponentChildren }) {
    if (of.data === null)
        return of.error ? (
            <Trouble error={of.error} again={of.reload} />
        ) : (
            <p class="empty" role="status">
                Loading…
            </p>
        );
    return (
        <>
            {of.error !== null && <Trouble error={of.error} again={of.reload} />}
            {children(of.data)}
        </>
    );
}

export function More({
    next,
    load,
    looking,
}: {
    next: string | null;
    load: (cursor: string) => void;
    looking?: boolean;
}) {
    return next ? (
        <p class="more">
            <button disabled={looking} onClick={() => load(next)}>
                {looking ? "Looking…" : "More"}
            </button>
        </p>
    ) : null;
}

export function Json({ value, label = "JSON", open }: { value: unknown; label?: string; open?: boolean }) {
    if (value === null || value === undefined) return <span class="faint">–</span>;
    const text = JSON.stringify(value, null, 2);
    if (text.length < 60 && !text.includes("\n  ")) return <code>{brief(value)}</code>;
    return (
        <details class="json" open={open}>
            <summary>{label}</summary>
            <pre tabIndex={0}>{text}</pre>
        </details>
    );
}

export function Facts({ of }: { of: [string, ComponentChildren][] }) {
    return (
        <dl class="facts">
            {of.map(([name, value]) => (
                <div key={name}>
                    <dt>{name}</dt>
                    <dd>{value}</dd>
                </div>
            ))}
        </dl>
    );
}

export function Bar({ done, failed, of }: { done: number; failed: number; of: number }) {
    const part = (n: number) => (of > 0 ? (100 * n) / of : 0);
    const words = `${count(done)} succeeded, ${count(failed)} failed, of ${count(of)}`;
    return (
        <svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={words}>
            <title>{words}</title>
            <rect class="track" width="100" height="6" />
            <rect class="done" width={part(done)} height="6" />
            <rect class="failed" x={part(done)} width={part(failed)} height="6" />
        </svg>
    );
}

/** Transitions or failures a minute, the newest at the right. */
export function Spark({ of, label }: { of: { value: number; bad: number; title: string }[]; label: string }) {
    const most = Math.max(1, ...of.map((m) => m.value));
    const w = 100 / Math.max(1, of.length);
    return (
        <svg class="spark" viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label={label}>
            {of.map((m, i) => (
                <g key={i}>
                    <title>{m.title}</title>
                    <rect
                        class="done"
                        x={i * w + w * 0.1}
                        width={w * 0.8}
                        y={40 - (39 * m.value) / most}
                        height={(39 * m.value) / most}
                    />
                    <rect
                        class="failed"
                        x={i * w + w * 0.1}
                        width={w * 0.8}
                        y={40 - (39 * m.bad) / most}
                        height={(39 * m.bad) / most}
                    />
                </g>
            ))}
        </svg>
    );
}

export function Counts({
    of,
    link,
}: {
    of: Record<string, number> | null | undefined;
    link?: (state: string) => string;
}) {
    const entries = Object.entries(of ?? {}).filter(([, n]) => n > 0);
    if (entries.length === 0) return <span class="faint">none</span>;
    return (
        <span class="counts">
            {entries.map(([state, n]) => {
                const inside = (
                    <>
                        <State s={state} />{" "}
                        <span>
                            <Num n={n} />
                        </span>
                    </>
                );
                return link ? (
                    <a href={link(state)} key={state}>
                        {inside}
                    </a>
                ) : (
                    <span key={state}>{inside}</span>
                );
            })}
        </span>
    );
}

/** A filter that reports its value when the user pauses typing. */
export function Search({
    label,
    value,
    set,
    placeholder,
}: {
    label: string;
    value: string;
    set: (v: string) => void;
    placeholder?: string;
}) {
    const [typed, type] = useState(value);
    useEffect(() => type(value), [value]);
    useEffect(() => {
        if (typed === value) return;
        const timer = setTimeout(() => set(typed.trim()), 350);
        return () => clearTimeout(timer);
    }, [typed]);
    return (
        <label class="field">
            <span>{label}</span>
            <input type="search" value={typed} placeholder={placeholder} onInput={(e) => type(e.currentTarget.value)} />
        </label>
    );
}

export function Choice({
    label,
    value,
    set,
    of,
    none = "any",
}: {
    label: string;
    value: string;
    set: (v: string) => void;
    of: (string | [string, string])[];
    /** What an empty value is called; null: a value is always chosen. */
    none?: string | null;
}) {
    const change: JSX.GenericEventHandler<HTMLSelectElement> = (e) => set(e.currentTarget.value);
    return (
        <label class="field">
            <span>{label}</span>
            <select value={value} onChange={change}>
                {none !== null && <option value="">{none}</option>}
                {of.map((o) => {
                    const [v, words] = typeof o === "string" ? [o, spoken(o)] : o;
                    return (
                        <option value={v} key={v}>
                            {words}
                        </option>
                    );
                })}
            </select>
        </label>
    );
}
