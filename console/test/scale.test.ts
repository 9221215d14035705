import assert from "node:assert/strict";
import { test } from "node:test";
import { fitted, opened, stepped } from "../src/scale";

test("a picture fits into its frame, and a small one is not enlarged", () => {
    assert.equal(fitted({ width: 2000, height: 300 }, { width: 1000, height: 700 }), 0.5);
    assert.equal(fitted({ width: 200, height: 300 }, { width: 1000, height: 700 }), 1);
    assert.equal(fitted({ width: 1000, height: 1000 }, { width: 1000, height: 800 }), 0.8);
    assert.equal(fitted({ width: 1000, height: 3200 }, { width: 1000, height: 800 }), 0.25, "a high one, too");
    assert.equal(fitted({ width: 1000, height: 90_000 }, { width: 1000, height: 800 }), 0.1, "to a tenth at least");
    assert.equal(fitted({ width: 0, height: 0 }, { width: 1000, height: 800 }), 1);
});

test("a picture opens at a scale at which its words can be read", () => {
    assert.equal(opened(1), 1);
    assert.equal(opened(0.7), 0.7);
    assert.equal(opened(0.28), 0.8);
});

test("the scale changes in steps, within limits", () => {
    assert.equal(stepped(1, 1), 1.25);
    assert.equal(stepped(1.25, -1), 1);
    assert.equal(stepped(4, 1), 4);
    assert.equal(stepped(0.1, -1), 0.1);
});
