import assert from "node:assert/strict";
import { test } from "node:test";
import { addressed } from "../src/api";
import { chosen, link } from "../src/router";

const at = (hash: string) => Object.assign(globalThis, { location: { hash } });

test("the chosen database is kept in links", () => {
    at("#/tasks?state=error&database=b");
    assert.equal(chosen(), "b");
    assert.equal(link(["dlq"]), "#/dlq?database=b");
    assert.equal(link(["tasks"], { state: "error" }), "#/tasks?database=b&state=error");
});

test("a link can lead to another database, or to all", () => {
    at("#/tasks?database=b");
    assert.equal(link(["tasks"], { database: "a" }), "#/tasks?database=a");
    assert.equal(link(["tasks"], { database: "" }), "#/tasks");
});

test("without a choice links and requests are as they were", () => {
    at("#/tasks?state=error");
    assert.equal(chosen(), "");
    assert.equal(link(["dlq"]), "#/dlq");
    assert.equal(addressed("/v1/tasks?limit=5"), "/v1/tasks?limit=5");
});

test("requests are for the chosen database", () => {
    at("#/tasks?database=b");
    assert.equal(addressed("/v1/tasks"), "/v1/tasks?database=b");
    assert.equal(addressed("/v1/tasks?limit=5"), "/v1/tasks?limit=5&database=b");
    for (const path of ["/v1/session", "/v1/databases", "/v1/events"]) assert.equal(addressed(path), path);
});
