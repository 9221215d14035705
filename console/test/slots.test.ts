import assert from "node:assert/strict";
import { test } from "node:test";
import type { Channel } from "../src/shared";
import { limited, most } from "../src/slots";

const waits = { answer: 20, ask: 60 };
const until = async (met: () => boolean, what: string) => {
    for (let i = 0; i < 500 && !met(); ++i) await new Promise((done) => setTimeout(done, 10));
    assert.ok(met(), what);
};

class Tab {
    reading = false;
    live = false;
    positions: string[] = [];
    ended = new AbortController();
    channel = new BroadcastChannel("slots");
    send: (position: string, data: string) => void = () => {};
    constructor(id: string) {
        const read = limited(
            (position, signal, connected, event) => {
                this.reading = true;
                this.positions.push(position);
                this.send = event;
                connected(true);
                signal.addEventListener("abort", () => (this.reading = false));
                return new Promise(() => {});
            },
            this.channel as unknown as Channel,
            id,
            waits,
        );
        void read(
            "",
            this.ended.signal,
            (now) => (this.live = now),
            () => {},
        );
    }
    end() {
        this.ended.abort();
        this.channel.close();
    }
}

test("of seven users' tabs three read a stream, and another one follows when one ends", async () => {
    const tabs = Array.from({ length: 7 }, (_, i) => new Tab("tab " + i));
    const reading = () => tabs.filter((t) => t.reading);
    await until(() => reading().length === most, "three read");
    await new Promise((done) => setTimeout(done, 300));
    assert.equal(reading().length, most, "and no more");
    assert.ok(
        tabs.every((t) => t.live === t.reading),
        "only those are live",
    );
    const first = reading()[0]!;
    first.send("7", "x");
    first.end();
    await until(() => reading().length === most && !first.reading, "a slot that is free is used");
    for (const t of tabs) if (t !== first) t.end();
});
