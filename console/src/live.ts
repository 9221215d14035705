// Keeps a page up to date: loads it, and loads it again when the event stream has a state change that concerns it.
import { createContext } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { randomKey, send, Problem, token } from "./api";
import { chosen } from "./router";
import { share, type Read } from "./shared";
import { limited } from "./slots";
import { EventParser } from "./sse";
import type { Session, Transition } from "./types";

export const SessionContext = createContext<Session | null>(null);
export const useSession = (): Session => useContext(SessionContext)!;
/** The operations of the packs that a role may have, by a function that stands for each group. */
export type Operation =
    | "pawl_dag.start_task"
    | "pawl_dag.retry_task"
    | "pawl_bulk.retry"
    | "pawl_bulk.signal"
    | "pawl_saga.suspend"
    | "pawl_saga.resolve";

/** Whether the token may change anything at all, and its role may execute these functions. */
export function useMay(operation?: Operation): boolean {
    const session = useSession();
    return session.scopes.includes("operate") && (!operation || session.operations.includes(operation));
}

type Listener = (transition: Transition) => void;
const listeners = new Set<Listener>();
const watchers = new Set<(connected: boolean) => void>();
let connected = false;

function setConnected(now: boolean): void {
    if (connected === now) return;
    connected = now;
    for (const w of watchers) w(now);
}

export function useConnected(): boolean {
    const [now, set] = useState(connected);
    useEffect(() => {
        watchers.add(set);
        set(connected);
        return () => void watchers.delete(set);
    }, []);
    return now;
}

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

/** The next part of the stream, which has a comment every 15 seconds. A stream that is silent for longer is lost. */
async function heard(reader: ReadableStreamDefaultReader<Uint8Array>) {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const silence = new Promise<never>((_, lost) => {
        timer = setTimeout(() => lost(new Error("silent")), 40_000);
    });
    try {
        return await Promise.race([reader.read(), silence]);
    } catch (e) {
        void reader.cancel().catch(() => {});
        throw e;
    } finally {
        clearTimeout(timer);
    }
}

/** Reads the event stream until the signal aborts; reconnects after a loss, and continues from the last position. */
const read: Read = async (from, signal, connected, event) => {
    let position = from;
    for (let wait = 500; !signal.aborted; wait = Math.min(wait * 2, 15_000)) {
        try {
            const headers: Record<string, string> = { Accept: "text/event-stream" };
            if (position) headers["Last-Event-ID"] = position;
            const response = await send("GET", "/v1/events", undefined, { signal, headers });
            const reader = response.body!.getReader();
            const decoder = new TextDecoder();
            const parser = new EventParser();
            // the server sends a comment at once: a proxy that keeps it back gives no stream
            for (let part = await heard(reader); !part.done; part = await heard(reader)) {
                connected(true);
                wait = 500;
                for (const message of parser.feed(decoder.decode(part.value, { stream: true }))) {
                    if (message.id) position = message.id;
                    if (message.event === "transition" || message.event === "message") event(position, message.data);
                }
            }
        } catch (e) {
            if (e instanceof Problem && (e.status === 401 || e.status === 403 || e.status === 404)) {
                connected(false);
                return;
            }
            if (e instanceof Problem && e.status === 410) position = "";
        }
        connected(false);
        if (!signal.aborted) await pause(wait);
    }
};

/** Learns of state changes until the signal aborts: from this tab's own stream, or from the tab that reads it. */
export function follow(session: Session, signal: AbortSignal): void {
    // tabs of other rights must not learn what this one may read
    const name = JSON.stringify(["pawl", session.database, session.person, session.role, session.scopes]);
    let ended: AbortController | null = null;
    let sharing: { check: () => void } | null = null;
    const begin = () => {
        ended = new AbortController();
        const slots = new BroadcastChannel("pawl streams");
        sharing = share(
            new BroadcastChannel(name),
            randomKey(),
            limited(read, slots, randomKey()),
            { connected: setConnected, event: tell, hidden: () => document.hidden },
            ended.signal,
        );
        ended.signal.addEventListener("abort", () => slots.close());
    };
    const end = () => ended?.abort();
    const shown = () => {
        if (!document.hidden) sharing?.check();
    };
    // a page that is kept for the way back runs nothing: another tab leads meanwhile
    const back = (e: PageTransitionEvent) => {
        if (e.persisted) begin();
    };
    addEventListener("pagehide", end);
    addEventListener("pageshow", back);
    document.addEventListener("visibilitychange", shown);
    signal.addEventListener("abort", () => {
        end();
        removeEventListener("pagehide", end);
        removeEventListener("pageshow", back);
        document.removeEventListener("visibilitychange", shown);
    });
    begin();
}

function tell(data: string): void {
    try {
        const transition = JSON.parse(data) as Transition;
        for (const l of listeners) l(transition);
    } catch {
        // a message of a later version
    }
}

export interface Loaded<T> {
    data: T | null;
    error: unknown;
    loading: boolean;
    reload: () => void;
}

export interface LiveOptions {
    /** Whether a state change concerns the page; by default every one does. */
    concerns?: (t: Transition) => boolean;
    /** The longest time between two loads, in milliseconds: the stream may be lost, and some data has no events. */
    every?: number;
    /** The shortest time between two loads, in milliseconds. */
    least?: number;
}

/** Loads now, when `key` changes, on events, and periodically. */
export function useLive<T>(
    key: string,
    load: (signal: AbortSignal) => Promise<T>,
    options: LiveOptions = {},
): Loaded<T> {
    const [state, set] = useState<{ key: string; data: T | null; error: unknown; loading: boolean }>({
        key,
        data: null,
        error: null,
        loading: true,
    });
    const again = useRef<() => void>(() => {});
    const latest = useRef(load);
    latest.current = load;
    const concerns = useRef(options.concerns);
    concerns.current = options.concerns;
    useEffect(() => {
        const ended = new AbortController();
        let timer: ReturnType<typeof setTimeout> | undefined,
            busy = false,
            asked = false,
            last = 0;
        const run = async () => {
            clearTimeout(timer);
            if (busy) {
                asked = true;
                return;
            }
            busy = true;
            asked = false;
            last = Date.now();
            try {
                const data = await latest.current(ended.signal);
                if (!ended.signal.aborted) set({ key, data, error: null, loading: false });
            } catch (error) {
                if (!ended.signal.aborted)
                    set((old) => ({ key, data: old.key === key ? old.data : null, error, loading: false }));
            }
            busy = false;
            if (!ended.signal.aborted)
                timer = setTimeout(
                    run,
                    asked
                        ? (options.least ?? 700)
                        : document.hidden
                          ? 60_000
                          : (options.every ?? (connected ? 10_000 : 4_000)),
                );
        };
        const soon = () => {
            if (busy) asked = true;
            else {
                clearTimeout(timer);
                timer = setTimeout(run, Math.max(120, (options.least ?? 700) - (Date.now() - last)));
            }
        };
        const listener: Listener = (t) => {
            if (t.database && chosen() && t.database !== chosen()) return;
            if (!document.hidden && (!concerns.current || concerns.current(t))) soon();
        };
        const seen = () => {
            if (!document.hidden) soon();
        };
        again.current = () => void run();
        set((old) => (old.key === key ? old : { key, data: null, error: null, loading: true }));
        listeners.add(listener);
        document.addEventListener("visibilitychange", seen);
        void run();
        return () => {
            ended.abort();
            clearTimeout(timer);
            listeners.delete(listener);
            document.removeEventListener("visibilitychange", seen);
        };
    }, [key]);
    return { ...state, data: state.key === key ? state.data : null, reload: () => again.current() };
}

/** The current time, renewed every few seconds, for "4 min ago". */
const clocks = new Set<(now: number) => void>();
setInterval(() => {
    for (const c of clocks) c(Date.now());
}, 5_000);

export function useNow(): number {
    const [now, set] = useState(Date.now);
    useEffect(() => {
        clocks.add(set);
        return () => void clocks.delete(set);
    }, []);
    return now;
}

export const isSignedIn = (): boolean => token.get() !== null;
