import assert from "node:assert/strict";
import { test } from "node:test";
import { link, parsePlace } from "../src/router";
import { EventParser } from "../src/sse";
import { lastHour, rates, sampled, type Sample } from "../src/throughput";
import { withQuery } from "../src/api";

const stream = ': hello\r\nid: 7\r\nevent: transition\r\ndata: {"a":\r\ndata: 1}\r\n\r\n\ndata: x\n\nid: 9\n\n';

test("events are read however the bytes are cut", () => {
    for (let cut = 1; cut < stream.length; ++cut) {
        const parser = new EventParser();
        const messages = [...parser.feed(stream.slice(0, cut)), ...parser.feed(stream.slice(cut))];
        assert.deepEqual(
            messages,
            [
                { event: "transition", id: "7", data: '{"a":\n1}' },
                { event: "message", id: "7", data: "x" },
            ],
            "cut at " + cut,
        );
        assert.equal(parser.lastId, "9");
    }
});

test("places survive the way through an address", () => {
    const address = link(["row"], { relation: "public.tickets", key: "a/b ?&=", empty: "", none: null });
    assert.deepEqual(parsePlace(address), { path: ["row"], query: { relation: "public.tickets", key: "a/b ?&=" } });
    assert.deepEqual(parsePlace(link(["machines", "my shop/order"])).path, ["machines", "my shop/order"]);
    assert.deepEqual(parsePlace("#/tasks/%E0%A4"), { path: ["tasks", "%E0%A4"], query: {} });
    assert.deepEqual(parsePlace(""), { path: [], query: {} });
});

test("queries leave out what is not given", () => {
    assert.equal(
        withQuery("/v1/tasks", { state: "", name: undefined, limit: 50, key: "a b" }),
        "/v1/tasks?limit=50&key=a+b",
    );
    assert.equal(withQuery("/v1/tasks"), "/v1/tasks");
});

test("rates come from totals, and begin anew when these were reset", () => {
    let samples: Sample[] = [];
    for (const [at, total] of [
        [0, 100],
        [500, 300],
        [2000, 500],
        [4000, 500],
    ])
        samples = sampled(samples, { at, total });
    assert.deepEqual(
        rates(samples).map((r) => r.perSecond),
        [200, 0],
    );
    assert.deepEqual(sampled(samples, { at: 6000, total: 3 }), [{ at: 6000, total: 3 }]);
    for (let i = 0; i < 200; ++i) samples = sampled(samples, { at: 10_000 + 1000 * i, total: 600 + i });
    assert.equal(samples.length, 61);
});

test("the last hour has every minute", () => {
    const hour = lastHour([{ minute: "2026-11-26T11:58:00Z", transitions: 7, failures: 1 }], "2026-11-26T12:00:30Z");
    assert.equal(hour.length, 60);
    assert.deepEqual(
        hour.slice(-3).map((m) => m.transitions),
        [7, 0, 0],
    );
    assert.equal(hour[0].minute, "2026-11-26T11:01:00.000Z");
    assert.deepEqual(lastHour([], "no time"), []);
});
