// One event stream for all tabs of the same user. A browser opens at most six connections to a server over HTTP/1.1,
// so a stream in each tab would leave none for requests. One tab leads: it reads the stream and passes on what arrives.

/** What tabs tell each other. */
type Note =
    | { kind: "ask"; from: string }
    | { kind: "lead"; from: string; connected: boolean }
    | { kind: "leave"; from: string }
    | { kind: "event"; from: string; position: string; data: string };

export interface Channel {
    postMessage(note: unknown): void;
    onmessage: ((message: MessageEvent) => void) | null;
    close(): void;
}

/** Reads the stream from a position until the signal aborts. It returns earlier only if there is no stream to read. */
export type Read = (
    position: string,
    signal: AbortSignal,
    connected: (now: boolean) => void,
    event: (position: string, data: string) => void,
) => Promise<void>;

export interface Follower {
    connected: (now: boolean) => void;
    event: (data: string) => void;
    /** Whether the tab is in the background, where timers are slow. Such a tab does not look after the leader. */
    hidden: () => boolean;
}

export interface Times {
    /** How long a leader has to answer, in milliseconds. */
    answer: number;
    /** How often a follower asks whether there is a leader, in milliseconds. */
    ask: number;
}

const usual: Times = { answer: 300, ask: 4_000 };

/**
 * Takes part in sharing until the signal aborts. `check` asks for the leader at once, for a tab that is shown again.
 * Two leaders at a time are harmless: the one with the smaller id stays.
 */
export function share(
    channel: Channel,
    id: string,
    read: Read,
    to: Follower,
    signal: AbortSignal,
    times: Times = usual,
): { check: () => void } {
    let position = "",
        connected = false,
        leads: AbortController | null = null,
        waiting: ReturnType<typeof setTimeout> | undefined;
    const post = (note: Note) => channel.postMessage(note);
    const report = (now: boolean) => {
        connected = now;
        to.connected(now);
    };
    const lead = () => {
        if (signal.aborted || leads) return;
        const mine = (leads = new AbortController());
        post({ kind: "lead", from: id, connected: false });
        void read(
            position,
            mine.signal,
            (now) => {
                if (leads !== mine) return;
                report(now);
                post({ kind: "lead", from: id, connected: now });
            },
            (at, data) => {
                if (leads !== mine) return;
                if (at) position = at;
                to.event(data);
                post({ kind: "event", from: id, position: at, data });
            },
        );
    };
    const resign = () => {
        leads?.abort();
        leads = null;
    };
    const check = () => {
        if (signal.aborted || leads || waiting !== undefined) return;
        post({ kind: "ask", from: id });
        waiting = setTimeout(
            () => {
                waiting = undefined;
                lead();
            },
            times.answer * (1 + Math.random()),
        );
    };
    channel.onmessage = ({ data }) => {
        const note = data as Note;
        if (signal.aborted || note.from === id) return;
        if (note.kind === "ask") {
            if (leads) post({ kind: "lead", from: id, connected });
        } else if (note.kind === "lead") {
            if (leads && id < note.from) return post({ kind: "lead", from: id, connected });
            resign();
            clearTimeout(waiting);
            waiting = undefined;
            if (note.connected !== connected) report(note.connected);
        } else if (note.kind === "leave") {
            if (!leads) {
                report(false);
                check();
            }
        } else if (note.kind === "event" && !leads) {
            if (note.position) position = note.position;
            to.event(note.data);
        }
    };
    const timer = setInterval(() => {
        if (leads) post({ kind: "lead", from: id, connected });
        else if (!to.hidden()) check();
    }, times.ask);
    signal.addEventListener("abort", () => {
        clearInterval(timer);
        clearTimeout(waiting);
        if (leads) post({ kind: "leave", from: id });
        resign();
        to.connected(false);
        channel.onmessage = null;
        channel.close();
    });
    check();
    return { check };
}
