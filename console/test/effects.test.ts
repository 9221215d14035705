import assert from "node:assert/strict";
import { test } from "node:test";
import { behind, bulkEffect, flowEffect, names, stepEffect, taskEffect } from "../src/effects";
import type { Bulk, FlowDetail, Step, TaskDetail } from "../src/types";

const step = (name: string, state: string, more: Partial<Step> = {}): Step =>
    ({ step_uuid: name, name, state, optional: false, attempts: 1, max_attempts: 3, ...more }) as Step;
const task = (state: string, steps: Step[], edges: [string, string][] = []): TaskDetail =>
    ({ task_uuid: "t", name: "order", state, workflow_steps: steps, edges }) as TaskDetail;
const order = task(
    "blocked_by_failures",
    [
        step("check", "complete"),
        step("pay", "error"),
        step("gift", "error", { optional: true }),
        step("ship", "pending"),
        step("thank", "pending"),
    ],
    [
        ["check", "pay"],
        ["check", "gift"],
        ["pay", "ship"],
        ["ship", "thank"],
    ],
);

test("a retry says what runs again and what does not", () => {
    const effect = taskEffect(order, "retry");
    assert.ok(effect.allowed);
    assert.match(effect.lines[0], /^1 failed step \(pay\) will get all attempts back/);
    assert.match(effect.lines[1], /^1 finished step will keep its result/);
    assert.ok(!taskEffect(task("complete", []), "retry").allowed);
    assert.ok(!taskEffect(task("steps_in_process", []), "retry").allowed);
});

test("a cancellation says that it is final, and which workers it stops", () => {
    const running = task("steps_in_process", [
        step("pay", "in_progress"),
        step("ship", "pending"),
        step("check", "complete"),
    ]);
    const effect = taskEffect(running, "cancel");
    assert.match(effect.lines[0], /cannot be undone/);
    assert.match(effect.lines[1], /2 steps that are not finished \(pay, ship\)/);
    assert.match(effect.lines[2], /1 worker is working on it now/);
    for (const state of ["complete", "error", "cancelled", "resolved_manually"])
        assert.ok(!taskEffect(task(state, []), "cancel").allowed, state);
});

test("only what is blocked is given up", () => {
    assert.ok(taskEffect(order, "give_up").allowed);
    assert.ok(!taskEffect(task("pending", []), "give_up").allowed);
});

test("what is done to a step names the steps that depend on it", () => {
    const pay = order.workflow_steps[1];
    assert.deepEqual(
        behind(order, pay).map((s) => s.name),
        ["ship", "thank"],
    );
    assert.match(stepEffect(order, pay, "resolve").lines[1], /2 steps that depend on it \(ship, thank\) can continue/);
    assert.match(stepEffect(order, pay, "cancel").lines[1], /2 steps that depend on it .* will be cancelled with it/);
    assert.ok(stepEffect(order, pay, "retry").allowed);
    assert.ok(!stepEffect(order, order.workflow_steps[3], "retry").allowed);
    assert.ok(!stepEffect(order, order.workflow_steps[0], "complete").allowed);
});

test("long lists of names are cut", () => {
    assert.equal(names(Array.from({ length: 8 }, (_, i) => ({ name: "s" + i }))), "s0, s1, s2, s3, s4 and 3 more");
});

test("bulk operations and flows are offered the actions of their state", () => {
    const bulk = {
        status: "Running",
        total_rows: 10,
        processed_rows: 4,
        successful_rows: 3,
        failed_rows: 1,
        paused_at: null,
    } as Bulk;
    assert.match(bulkEffect(bulk, "cancel").lines[0], /^6 rows without an outcome/);
    assert.ok(
        bulkEffect(bulk, "pause").allowed && !bulkEffect(bulk, "resume").allowed && !bulkEffect(bulk, "retry").allowed,
    );
    assert.ok(bulkEffect({ ...bulk, status: "CompletedWithErrors" }, "retry").allowed);
    assert.ok(!bulkEffect({ ...bulk, status: "Completed" }, "cancel").allowed);
    const flow = { state: "RUNNING", atoms: [{ name: "car", state: "RUNNING" }] } as FlowDetail;
    assert.match(flowEffect(flow, "suspend").lines[1], /^car will be finished first/);
    assert.ok(!flowEffect(flow, "resume").allowed && !flowEffect(flow, "run").allowed);
    assert.ok(flowEffect({ ...flow, state: "SUSPENDED" }, "resume").allowed);
});
