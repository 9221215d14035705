import assert from "node:assert/strict";
import { test } from "node:test";
import { added, asOf, begun, carryOut, type Means, type Outcomes } from "../src/actions";
import { Problem } from "../src/api";

const answer = (of: Partial<Outcomes>): Outcomes => ({
    at: "2026-01-01T00:00:00Z",
    changed: 0,
    unchanged: 0,
    rejected: 0,
    groups: [],
    items: [],
    next: null,
    ...of,
});
const group = (reason: string | null, count: number, examples = ["a"]) => ({
    outcome: "rejected" as const,
    state: "error",
    sqlstate: "PW001",
    reason,
    count,
    examples,
});

/** Answers in turn; what is an error is thrown. Keeps what was sent. */
function scripted(answers: (Outcomes | Problem)[]): Means & { sent: { body: Record<string, unknown>; key: string }[] } {
    const sent: { body: Record<string, unknown>; key: string }[] = [];
    let keys = 0;
    return {
        sent,
        key: () => "key " + ++keys,
        pause: () => Promise.resolve(),
        post: async (body, key) => {
            sent.push({ body: body as Record<string, unknown>, key });
            const next = answers.shift()!;
            if (next instanceof Problem) throw next;
            return next;
        },
    };
}
const live = new AbortController().signal;

test("groups of several answers are added up, with three examples at most", () => {
    const now = added(
        added(begun, answer({ rejected: 2, groups: [group("x", 2, ["a", "b"])], next: "n" })),
        answer({ rejected: 3, groups: [group("x", 2, ["c", "d"]), group("y", 1)] }),
    );
    assert.equal(now.rejected, 5);
    assert.deepEqual(
        now.groups.map((g) => [g.reason, g.count, g.examples]),
        [
            ["x", 4, ["a", "b", "c"]],
            ["y", 1, ["a"]],
        ],
    );
    assert.ok(now.done);
});

test("requests follow each other by the cursor, each with a key of its own", async () => {
    const means = scripted([answer({ changed: 2, next: "n" }), answer({ changed: 1 })]);
    const seen: number[] = [];
    const end = await carryOut(
        { action: "cancel" },
        { filter: { name: "x" } },
        means,
        (p) => seen.push(p.changed),
        live,
    );
    assert.equal(end.changed, 3);
    assert.deepEqual(seen, [2, 3]);
    assert.deepEqual(
        means.sent.map((s) => [s.body.cursor, s.key]),
        [
            [undefined, "key 1"],
            ["n", "key 2"],
        ],
    );
});

test("a lost answer is asked for again with the same key", async () => {
    const means = scripted([new Problem(0, "gone"), new Problem(503, "full"), answer({ changed: 1 })]);
    await carryOut({ action: "cancel" }, { ids: ["a"] }, means, () => {}, live);
    assert.deepEqual(
        means.sent.map((s) => s.key),
        ["key 1", "key 1", "key 1"],
    );
});

test("what takes too long is done in smaller parts; other errors end it", async () => {
    const late = new Problem(504, "late", undefined, undefined, "57014");
    const means = scripted([late, late, answer({ changed: 1 })]);
    await carryOut({ action: "cancel" }, { ids: ["a"] }, means, () => {}, live);
    assert.deepEqual(
        means.sent.map((s) => [s.body.limit, s.key]),
        [
            [200, "key 1"],
            [50, "key 2"],
            [13, "key 3"],
        ],
    );
    const forbidden = scripted([new Problem(403, "no", undefined, undefined, "42501")]);
    await assert.rejects(
        carryOut({ action: "cancel" }, { ids: ["a"] }, forbidden, () => {}, live),
        /no/,
    );
});

test("an action that is stopped sends nothing more, and continues from where it was", async () => {
    const ended = new AbortController();
    const means = scripted([answer({ changed: 1, next: "n" }), answer({ changed: 1 })]);
    const half = await carryOut({ action: "cancel" }, { ids: ["a"] }, means, () => ended.abort(), ended.signal);
    assert.equal(half.done, false);
    const whole = await carryOut({ action: "cancel" }, { ids: ["a"] }, means, () => {}, live, half);
    assert.deepEqual([whole.changed, whole.done], [2, true]);
});

test("an action does not reach what was created after its dry run", () => {
    const at = "2026-05-05T00:00:00Z";
    assert.deepEqual(asOf({ filter: { name: "x" } }, "created_before", at), {
        filter: { name: "x", created_before: at },
    });
    assert.deepEqual(asOf({ filter: { created_before: "2026-01-01T00:00:00Z" } }, "created_before", at), {
        filter: { created_before: "2026-01-01T00:00:00Z" },
    });
    assert.deepEqual(asOf({ ids: ["a"] }, "created_before", at), { ids: ["a"] });
});

test("databases that were missing are told once", () => {
    const missing = (detail: string) => ({ unavailable: [{ database: "c", problem: { detail } }] });
    const first = added(begun, answer({ next: "x", ...missing("down") }));
    assert.deepEqual(added(first, answer(missing("still down"))).unavailable, missing("still down").unavailable);
    assert.deepEqual(added(first, answer({})).unavailable, missing("down").unavailable);
});
