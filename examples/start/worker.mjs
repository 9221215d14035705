import * as pawl from 'pawl';

const worker = new pawl.Worker({
    connection: { host: process.env.PGHOST ?? '/var/run/postgresql', database: 'shop' },
    source: new pawl.Table('letters', { success: 'finish', failure: 'fail' }),
});
worker.on('job', async (job) => {
    console.log('dear', job.context.recipient);
    return {};
});
await worker.run(); // until SIGTERM or Ctrl-C, which drains
