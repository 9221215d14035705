// How many event streams the tabs of one browser read at a time. A browser opens at most six connections to a server
// over HTTP/1.1, so streams of several users could leave none for requests. Tabs without a slot poll.
import type { Channel, Read } from "./shared";

/** How many streams may be read, of the six connections. */
export const most = 3;

type Note = { kind: "ask"; from: string } | { kind: "hold"; from: string } | { kind: "free"; from: string };

export interface Waits {
    /** How long tabs with a slot have to answer, in milliseconds. */
    answer: number;
    /** How often a slot is asked for, and held ones are announced, in milliseconds. */
    ask: number;
}

const usual: Waits = { answer: 250, ask: 4_000 };

/** Reads only while this tab has a slot. If too many have one, those with the smallest ids keep theirs. */
export function limited(read: Read, channel: Channel, id: string, waits: Waits = usual): Read {
    return (from, signal, connected, event) =>
        new Promise<void>((done) => {
            let position = from;
            let reading: AbortController | null = null;
            let waiting: ReturnType<typeof setTimeout> | undefined;
            const readers = new Map<string, number>();
            const post = (note: Note) => channel.postMessage(note);
            const others = () => {
                for (const [other, seen] of readers) if (Date.now() - seen > 3 * waits.ask) readers.delete(other);
                return [...readers.keys()];
            };
            const end = () => {
                clearInterval(timer);
                clearTimeout(waiting);
                if (reading) post({ kind: "free", from: id });
                reading?.abort();
                reading = null;
                channel.onmessage = null;
                done();
            };
            const begin = () => {
                if (signal.aborted || reading || others().length >= most) return;
                const mine = (reading = new AbortController());
                post({ kind: "hold", from: id });
                void read(
                    position,
                    mine.signal,
                    (now) => reading === mine && connected(now),
                    (at, data) => {
                        if (at) position = at;
                        event(at, data);
                    },
                ).then(() => reading === mine && end());
            };
            const giveUp = () => {
                reading?.abort();
                reading = null;
                connected(false);
                post({ kind: "free", from: id });
            };
            const ask = () => {
                if (reading) return post({ kind: "hold", from: id });
                post({ kind: "ask", from: id });
                clearTimeout(waiting);
                waiting = setTimeout(begin, waits.answer * (1 + Math.random()));
            };
            channel.onmessage = ({ data }) => {
                const note = data as Note;
                if (note.from === id) return;
                if (note.kind === "ask" && reading) post({ kind: "hold", from: id });
                if (note.kind === "free") readers.delete(note.from);
                if (note.kind === "hold") {
                    readers.set(note.from, Date.now());
                    if (reading && others().filter((other) => other < id).length >= most) giveUp();
                }
            };
            const timer = setInterval(ask, waits.ask);
            signal.addEventListener("abort", end);
            ask();
        });
}
