// The worker of the scenarios in JavaScript, by the package of client/typescript that
// PAWL_TYPESCRIPT names. See README.md.
import { existsSync } from "node:fs";
const pawl = await import(`${process.env.PAWL_TYPESCRIPT}/dist/index.js`);
const [source, lease, grace] = process.argv.slice(2);
const sources = {
    table: () => new pawl.Table("work", { success: "finish", failure: "fail", permanentFailure: "give_up" }),
    steps: () => new pawl.Steps("default"),
    rows: () => new pawl.OperationRows(),
    flows: () => new pawl.FlowTasks("default"),
};
const worker = new pawl.Worker({
    connection: { application_name: "scenario" },
    source: sources[source](),
    placed: "PAWL_PLACED" in process.env,
    lease: Number(lease),
    grace: Number(grace),
    longestPoll: 100,
    onMessage: (text) => console.error(text),
    onDropped: (job) => console.error(`dropped: ${job.key}`),
});
const after = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

worker.on("", async (job) => {
    const { kind } = job.context;
    if (kind === "poison") throw new Error("as always");
    if (kind === "hopeless") throw new pawl.PermanentFailure("no other attempt can succeed");
    if (kind === "strange") {
        let value = 1;
        for (let level = 0; level < 600; ++level) value = [value];
        return value;
    }
    if (kind === "slow") await after(500);
    while (kind === "held" && !existsSync(job.context.until)) await after(10);
    if (kind === "hangs" && job.token === 1) {
        await new Promise((resolve) => job.stop.addEventListener("abort", resolve, { once: true }));
        throw new Error("was asked to stop");
    }
    return { kind };
});
worker.onRevert("", () => null);
console.error(`works as ${worker.processor}`);
await worker.run();
console.log(JSON.stringify(worker.counts));
