// The baselines of bench/dag.py: as many jobs as argv[3] says through graphile-worker or pg-boss, four connections,
// nothing to do in a job. Prints jobs a second. Neither keeps a log; pg-boss fetches and completes in batches of 100,
// graphile-worker job by job.
import pg from "pg";
import PgBoss from "pg-boss";
import { Logger, run, makeWorkerUtils } from "graphile-worker";

const connection = {
    host: process.env.PGHOST,
    port: Number(process.env.PGPORT),
    user: process.env.PGUSER,
    database: process.env.PGDATABASE,
};
const [which, jobs] = [process.argv[2], Number(process.argv[3])];
const pool = new pg.Pool({ ...connection, max: 4 });

async function graphile() {
    const utils = await makeWorkerUtils({ pgPool: pool });
    await utils.migrate();
    await pool.query(
        "select graphile_worker.add_job('noop', json_build_object('n', g)) from generate_series(1, $1::int) g",
        [jobs],
    );
    await pool.query("vacuum analyze");
    let done = 0;
    const began = performance.now();
    const seconds = await new Promise((resolve) => {
        run({
            pgPool: pool,
            concurrency: 24,
            noHandleSignals: true,
            logger: new Logger(() => () => {}),
            taskList: {
                noop: () => {
                    if (++done === jobs) setImmediate(() => resolve((performance.now() - began) / 1000));
                },
            },
        });
    });
    return jobs / seconds;
}

async function boss() {
    const boss = new PgBoss({ ...connection, max: 4, supervise: false, schedule: false });
    boss.on("error", (error) => {
        throw error;
    });
    await boss.start();
    await boss.createQueue("noop");
    for (let first = 0; first < jobs; first += 1000)
        await boss.insert(
            Array.from({ length: Math.min(1000, jobs - first) }, (_, i) => ({ name: "noop", data: { n: first + i } })),
        );
    await pool.query("vacuum analyze");
    let done = 0;
    const began = performance.now();
    await Promise.all(
        [1, 2, 3, 4].map(async () => {
            for (;;) {
                const batch = await boss.fetch("noop", { batchSize: 100 });
                if (!batch || batch.length === 0) return;
                await boss.complete(
                    "noop",
                    batch.map((job) => job.id),
                );
                done += batch.length;
            }
        }),
    );
    if (done !== jobs) throw new Error(`${done} of ${jobs} jobs`);
    return jobs / ((performance.now() - began) / 1000);
}

console.log((await (which === "graphile-worker" ? graphile() : boss())).toFixed(1));
process.exit(0);
