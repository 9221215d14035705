import assert from "node:assert/strict";
import { test } from "node:test";
import {
    absolute,
    ago,
    brief,
    count,
    duration,
    failedStep,
    isId,
    many,
    problemText,
    second,
    secondsBetween,
    short,
    spoken,
    tone,
} from "../src/format";

test("durations have two units at most", () => {
    assert.equal(duration(0), "0 s");
    assert.equal(duration(0.25), "250 ms");
    assert.equal(duration(3.21), "3.2 s");
    assert.equal(duration(59.6), "1 min");
    assert.equal(duration(3600), "1 h");
    assert.equal(duration(3661), "1 h 1 min");
    assert.equal(duration(90_061), "1 d 1 h");
    assert.equal(duration(86_430), "1 d");
    assert.equal(duration(-5), "−5 s");
    assert.equal(duration(null), "–");
    assert.equal(duration(Infinity), "–");
});

test("times are shown relative to now", () => {
    const now = Date.parse("2026-01-02T00:00:00Z");
    assert.equal(ago("2026-01-01T23:56:00Z", now), "4 min ago");
    assert.equal(ago("2026-01-02T00:00:20Z", now), "in 20 s");
    assert.equal(ago("2026-01-02T00:00:01Z", now), "now");
    assert.equal(ago("2025-12-31T20:00:00+00:00", now), "1 d ago");
    assert.equal(ago("infinity", now), "–");
    assert.equal(ago(null, now), "–");
    assert.equal(absolute("2026-01-01T23:56:00.123+01:00"), "2026-01-01 22:56:00.123 UTC");
    assert.equal(second("2026-01-01T23:56:00.123+01:00"), "2026-01-01 22:56:00 UTC");
    assert.equal(secondsBetween("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"), 60);
    assert.equal(secondsBetween(null, "2026-01-01T00:01:00Z"), null);
});

test("numbers are grouped, and say where counting stopped", () => {
    assert.equal(count(1234567), "1,234,567");
    assert.equal(count(10000, true), "10,000+");
    assert.equal(count(null), "–");
    assert.equal(count(12.345), "12.3");
});

test("states of all packs have a tone; others have that of their tags", () => {
    assert.equal(tone("blocked_by_failures"), "bad");
    assert.equal(tone("CompletedWithErrors"), "bad");
    assert.equal(tone("REVERT_FAILURE"), "bad");
    assert.equal(tone("WaitingForCompletion"), "wait");
    assert.equal(tone("SUCCESS"), "good");
    assert.equal(tone("resolved_manually"), "good");
    assert.equal(tone("REVERTED"), "off");
    assert.equal(tone("open"), "idle");
    assert.equal(tone("open", ["waiting"]), "wait");
    assert.equal(tone(null), "idle");
});

test("names of states become words", () => {
    assert.equal(spoken("waiting_for_retry"), "waiting for retry");
    assert.equal(spoken("WaitingForCompletion"), "waiting for completion");
    assert.equal(spoken("REVERT_FAILURE"), "revert failure");
});

test("ids are shortened to their end; other keys are not", () => {
    const id = "019a5b2c-1111-7222-8333-444455556666";
    assert.ok(isId(id) && !isId("17"));
    assert.equal(short(id), "…55556666");
    assert.equal(short("order-17"), "order-17");
});

test("values and errors fit on a line", () => {
    assert.equal(brief({ a: 1 }), '{"a":1}');
    assert.equal(brief("x".repeat(90)).length, 80);
    assert.equal(problemText({ message: "card declined", type: "P0001" }), "card declined");
    assert.equal(problemText("busy"), "busy");
    assert.equal(problemText(null), "–");
});

test("one is not many", () => {
    assert.equal(many(0, "owner"), "0 owners");
    assert.equal(many(1, "owner"), "1 owner");
    assert.equal(many(1234, "match", "matches"), "1,234 matches");
});

test("an error may name the step that it comes from", () => {
    assert.equal(failedStep({ message: "declined", step: "pay" }), "pay");
    for (const error of [null, "declined", { message: "declined" }, { step: 7 }]) assert.equal(failedStep(error), null);
});
