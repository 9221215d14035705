import assert from "node:assert/strict";
import { test } from "node:test";
import { share, type Channel } from "../src/shared";

const times = { answer: 20, ask: 60 };
const until = async (met: () => boolean, what: string) => {
    for (let i = 0; i < 500 && !met(); ++i) await new Promise((done) => setTimeout(done, 10));
    assert.ok(met(), what);
};

class Tab {
    reads = 0;
    reading = false;
    heard: string[] = [];
    positions: string[] = [];
    live = false;
    ended = new AbortController();
    send: (position: string, data: string) => void = () => {};
    constructor(id: string, channel: string | Channel, tabs: Tab[]) {
        tabs.push(this);
        share(
            typeof channel === "string" ? (new BroadcastChannel(channel) as unknown as Channel) : channel,
            id,
            (position, signal, connected, event) => {
                ++this.reads;
                this.positions.push(position);
                this.reading = true;
                this.send = event;
                signal.addEventListener("abort", () => (this.reading = false));
                connected(true);
                return new Promise(() => {});
            },
            {
                connected: (now) => (this.live = now),
                event: (data) => this.heard.push(data),
                hidden: () => false,
            },
            this.ended.signal,
            times,
        );
    }
}

const one = (tabs: Tab[]) => tabs.filter((t) => t.reading).length === 1 && tabs.every((t) => t.live);

test("eight tabs share one stream, and another tab takes over where it was", async () => {
    const tabs: Tab[] = [];
    for (let i = 0; i < 8; ++i) new Tab("tab " + i, "eight", tabs);
    await until(() => one(tabs), "one of eight tabs reads, and all are live");
    const first = tabs.find((t) => t.reading)!;
    first.send("7", "a change");
    await until(() => tabs.every((t) => t.heard.join() === "a change"), "every tab hears of the change once");
    first.ended.abort();
    assert.equal(first.reading, false, "a tab that is closed reads no longer");
    const rest = tabs.filter((t) => t !== first);
    await until(() => one(rest), "another tab reads");
    assert.equal(rest.find((t) => t.reading)!.positions.at(-1), "7", "it continues at the last position");
    rest.forEach((t) => t.ended.abort());
});

test("a leader that no longer answers is replaced, and of two leaders one stays", async () => {
    const tabs: Tab[] = [];
    const real = new BroadcastChannel("frozen");
    let frozen = false;
    const channel: Channel = {
        postMessage: (note) => frozen || real.postMessage(note),
        onmessage: null,
        close: () => real.close(),
    };
    real.onmessage = (m: unknown) => frozen || channel.onmessage?.(m as MessageEvent);
    const first = new Tab("a", channel, tabs);
    await until(() => first.reading, "the first tab reads");
    const second = new Tab("b", "frozen", tabs);
    await until(() => second.live, "the second tab follows");
    assert.equal(second.reads, 0);
    frozen = true;
    await until(() => second.reading, "the second tab leads when the first is frozen");
    frozen = false;
    await until(() => one(tabs), "both leaders hear of each other, and one stays");
    tabs.forEach((t) => t.ended.abort());
});

test("tabs of other users have their own stream", async () => {
    const tabs: Tab[] = [];
    new Tab("a", "rita", tabs);
    new Tab("b", "otto", tabs);
    await until(() => tabs.every((t) => t.reading), "both read");
    tabs[0].send("1", "for rita");
    tabs[1].send("1", "for otto");
    assert.deepEqual(
        tabs.map((t) => t.heard),
        [["for rita"], ["for otto"]],
    );
    tabs.forEach((t) => t.ended.abort());
});
