import assert from "node:assert/strict";
import { test } from "node:test";
import { box, columns, contract, draw, levels, type Edge, type Node } from "../src/dag";

const nodes = (...ids: string[]): Node[] => ids.map((id) => ({ id, label: id, state: "pending" }));
const edges = (...pairs: string[]): Edge[] => pairs.map((p) => ({ from: p[0], to: p[1] }));

test("a node comes after the last node that it waits for", () => {
    const level = levels(nodes("a", "b", "c", "d"), edges("ab", "bc", "ac", "cd", "ad"));
    assert.deepEqual(
        [...level],
        [
            ["a", 0],
            ["b", 1],
            ["c", 2],
            ["d", 3],
        ],
    );
});

test("a cycle ends, and edges to unknown nodes are ignored", () => {
    const level = levels(nodes("a", "b"), edges("ab", "ba", "ax", "yb"));
    assert.deepEqual([...level.keys()], ["a", "b"]);
    assert.equal(draw(nodes("a", "b"), edges("ax")).lines.length, 0);
});

test("nodes are ordered like their parents, so that lines do not cross", () => {
    const [, second] = columns(nodes("a", "b", "c", "z", "y", "x"), edges("az", "by", "cx"));
    assert.deepEqual(second, ["z", "y", "x"]);
    const [first, crossed] = columns(nodes("a", "b", "x", "y"), edges("ay", "bx"));
    assert.equal(first.indexOf("a") < first.indexOf("b"), crossed.indexOf("y") < crossed.indexOf("x"));
});

test("every node has a place of its own inside the picture", () => {
    const many = Array.from({ length: 40 }, (_, i) => "n" + i);
    const picture = draw(nodes("s", ...many, "e"), [
        ...many.map((n) => ({ from: "s", to: n })),
        ...many.map((n) => ({ from: n, to: "e" })),
    ]);
    const places = new Set(picture.nodes.map((n) => `${n.x} ${n.y}`));
    assert.equal(places.size, 42);
    assert.equal(picture.lines.length, 80);
    for (const n of picture.nodes)
        assert.ok(n.x >= 0 && n.y >= 0 && n.x + box.width <= picture.width && n.y + box.height <= picture.height);
});

test("a line over several columns passes beside the nodes between", () => {
    const picture = draw(nodes("a", "b", "c", "d", "e"), edges("ab", "bc", "cd", "ad", "ac", "be", "ed"));
    const levels = picture.lines.map((line) => {
        const through = [...line.path.matchAll(/ ([\d.]+)H([\d.]+)/g)].map((m) => ({ y: +m[1], end: +m[2] }));
        for (const at of through)
            for (const n of picture.nodes.filter((n) => n.x + box.width === at.end))
                assert.ok(at.y < n.y || at.y > n.y + box.height, `${line.from}${line.to} lies under ${n.id}`);
        return line.from + line.to + through.length;
    });
    assert.deepEqual(levels, ["ab0", "bc0", "cd0", "ad2", "ac1", "be0", "ed0"]);
});

test("an empty graph has no lines", () =>
    assert.deepEqual(draw([], []), { nodes: [], lines: [], width: 0, height: 0 }));

test("lines pass through the entries and ends of flows", () => {
    const lines = contract(new Set(["a", "b", "c", "d"]), edges("0a", "0b", "a1", "b1", "1c", "1d", "c2", "d2"));
    assert.deepEqual(lines.map((e) => e.from + e.to).sort(), ["ac", "ad", "bc", "bd"]);
});
