/** pawl for TypeScript and JavaScript: workers, calls in your own transaction, errors as types. See README.md. */
export * from './calls.js';
export * from './errors.js';
export { Placements } from './placements.js';
export { FlowTasks, OperationRows, Source, Steps, Table, type Job } from './sources.js';
export type { Handler } from './handle.js';
export { Worker, type WorkerSettings } from './worker.js';
