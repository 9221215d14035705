import assert from "node:assert/strict";
import { test } from "node:test";
import { offsetOf, summary, type Finding } from "../src/draw";

test("a line and column is a place in the text", () => {
    assert.equal(offsetOf("ab\ncd\nef", 1, 1), 0);
    assert.equal(offsetOf("ab\ncd\nef", 2, 2), 4);
    assert.equal(offsetOf("ab\ncd\nef", 9, 9), 8);
    assert.equal(offsetOf("", 1, 1), 0);
});

test("columns count bytes, offsets count UTF-16", () => {
    assert.equal(offsetOf("ä → b", 1, 7), 3);
    assert.equal(offsetOf("🙂 x", 1, 6), 3);
});

test("findings are counted in words", () => {
    const finding = (severity: Finding["severity"]): Finding => ({
        severity,
        code: "x",
        line: 1,
        col: 1,
        message: "m",
    });
    assert.equal(summary({ findings: [], hint: null, diagram: "x" }), "No errors or warnings");
    assert.equal(
        summary({ findings: [finding("error"), finding("warning"), finding("warning")], hint: null, diagram: null }),
        "1 error, 2 warnings",
    );
});
