// How times, numbers and states are shown. Pure: the tests call these without a browser.

const units: [number, string][] = [
    [86_400, "d"],
    [3_600, "h"],
    [60, "min"],
    [1, "s"],
];

/** A span in words short enough for a table: "3 min", "2 d 4 h"; two units at most. */
export function duration(seconds: number | null | undefined): string {
    if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
    if (seconds < 0) return "−" + duration(-seconds);
    if (seconds < 0.0005) return "0 s";
    if (seconds < 1) return Math.round(seconds * 1000) + " ms";
    if (seconds < 10) return (Math.round(seconds * 10) / 10).toString() + " s";
    let rest = Math.round(seconds);
    const parts: string[] = [];
    for (const [size, name] of units) {
        if (rest >= size && parts.length < 2) {
            parts.push(Math.floor(rest / size) + " " + name);
            rest %= size;
        } else if (parts.length > 0) break;
    }
    return parts.join(" ");
}

/** How long ago, or in how long: "4 min ago", "in 20 s", "now". */
export function ago(time: string | null | undefined, now: number = Date.now()): string {
    const at = instant(time);
    if (at === null) return "–";
    const seconds = (now - at) / 1000;
    if (Math.abs(seconds) < 1.5) return "now";
    const words = duration(Math.round(Math.abs(seconds)));
    return seconds > 0 ? words.split(" ").slice(0, 2).join(" ") + " ago" : "in " + words;
}

/** Milliseconds since 1970, or null for what is no time (PostgreSQL's infinity too). */
export function instant(time: string | null | undefined): number | null {
    if (!time) return null;
    const at = Date.parse(time);
    return Number.isNaN(at) ? null : at;
}

/** 2026-11-26 18:40:57 UTC. */
export function second(time: string | null | undefined): string {
    return absolute(time).replace(/\.\d+/, "");
}

export function absolute(time: string | null | undefined): string {
    const at = instant(time);
    return at === null ? (time ?? "") : new Date(at).toISOString().replace("T", " ").replace("Z", " UTC");
}

export function secondsBetween(from: string | null | undefined, to: string | null | undefined): number | null {
    const a = instant(from),
        b = instant(to);
    return a === null || b === null ? null : (b - a) / 1000;
}

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** 1,234,567; with "+" where the server stopped counting. */
export function count(n: number | null | undefined, capped = false): string {
    return n === null || n === undefined ? "–" : grouped.format(n) + (capped ? "+" : "");
}

/** "1 owner", "3 owners". */
export function many(n: number, one: string, more = one + "s"): string {
    return n === 1 ? "1 " + one : `${count(n)} ${more}`;
}

export function isId(text: string): boolean {
    return /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(text);
}

/** The end of a UUIDv7 tells rows apart; its beginning is the time. */
export function short(id: string | null | undefined): string {
    if (!id) return "–";
    return isId(id) ? "…" + id.slice(-8) : id;
}

export type Tone = "idle" | "busy" | "wait" | "good" | "bad" | "off";

const tones: Record<string, Tone> = {
    pending: "idle",
    created: "idle",
    unclaimed: "idle",
    queued: "idle",
    posted: "idle",
    initializing: "busy",
    enqueuing_steps: "busy",
    steps_in_process: "busy",
    evaluating_results: "busy",
    enqueued: "busy",
    in_progress: "busy",
    enqueued_for_orchestration: "busy",
    enqueued_as_error_for_orchestration: "busy",
    running: "busy",
    reverting: "busy",
    retrying: "busy",
    validating: "busy",
    resuming: "busy",
    suspending: "busy",
    claimed: "busy",
    leased: "busy",
    waiting_for_dependencies: "wait",
    waiting_for_retry: "wait",
    waitingforcompletion: "wait",
    suspended: "wait",
    paused: "wait",
    complete: "good",
    completed: "good",
    success: "good",
    resolved_manually: "good",
    permanently_failed: "bad",
    manually_resolved: "good",
    blocked_by_failures: "bad",
    error: "bad",
    failed: "bad",
    failure: "bad",
    revert_failure: "bad",
    timedout: "bad",
    completedwitherrors: "bad",
    cancelled: "off",
    reverted: "off",
    ignore: "off",
    ignored: "off",
    trashed: "off",
};

/** The colour family of a state, by name; an unknown state is idle, or what its tags say. */
export function tone(state: string | null | undefined, tags: string[] = []): Tone {
    const known = tones[(state ?? "").toLowerCase()];
    if (known) return known;
    if (tags.includes("error")) return "bad";
    if (tags.includes("waiting")) return "wait";
    if (tags.includes("owned")) return "busy";
    return "idle";
}

/** waiting_for_retry, WaitingForCompletion and REVERT_FAILURE as people write them. */
export function spoken(state: string | null | undefined): string {
    if (!state) return "–";
    const words = state.replace(/([a-z])([A-Z])/g, "$1 $2").replace(/_/g, " ");
    return words.toLowerCase();
}

/** The part of a value that fits into a cell. */
export function brief(value: unknown, most = 80): string {
    if (value === null || value === undefined) return "–";
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

/** An error as the packs keep it ({message, type, …}), or anything else, as a sentence. */
export function problemText(error: unknown): string {
    if (error && typeof error === "object") {
        const e = error as Record<string, unknown>;
        for (const name of ["message", "detail", "error", "reason"])
            if (typeof e[name] === "string") return e[name] as string;
    }
    return brief(error, 200);
}

/** The step that an error of a task comes from, if it names one. */
export function failedStep(error: unknown): string | null {
    const step = error && typeof error === "object" ? (error as Record<string, unknown>).step : null;
    return typeof step === "string" ? step : null;
}
