/** A worker: claims work, runs its handlers, reports the results. A result counts exactly once. */
import { randomUUID } from 'node:crypto';
import pg, { type ClientConfig } from 'pg';

import { ConnectionLost, errorOf, isTransient, LeaseLost, NotTheOwner, PawlError, PlacedElsewhere } from './errors.js';
import { guarded, handle, type Handler, type Handlers } from './handle.js';
import { Placements } from './placements.js';
import { firstPart, idOfWork, type Job, type Result, type Source, Steps, type Work } from './sources.js';

/** Everything has a default. Times are milliseconds. */
export interface WorkerSettings {
    /** How pg connects; what it leaves out comes from PGHOST and so on. */
    connection?: ClientConfig;
    source?: Source;
    /** Whether the connection is that of one of several databases: then the worker connects to the one that its queue
     * is in, and follows it when it moves. For Steps. */
    placed?: boolean;
    /** How many handlers run at once. */
    concurrency?: number;
    /** How much it owns at once; default: twice the concurrency. */
    batch?: number;
    lease?: number;
    /** After stop(): how long handlers may run before they are asked to stop. */
    grace?: number;
    shortestPoll?: number;
    longestPoll?: number;
    /** Wait for notifications. */
    wake?: boolean;
    pooler?: 'none' | 'session' | 'transaction';
    /** Gets lines for a log. What it throws does not stop the worker. */
    onMessage?: (text: string) => void;
    /** Gets jobs whose result did not count. What it throws is told to onMessage. */
    onDropped?: (job: Job) => void;
}

/** Works until stop() or a signal: then it claims nothing more, lets running handlers finish for `grace`, asks them to
 * stop (job.stop), and gives the rest back. */
export class Worker {
    processor = randomUUID() as string;
    readonly counts = { claimed: 0, succeeded: 0, failed: 0, dropped: 0, abandoned: 0, reconnects: 0 };

    private readonly settings: Required<WorkerSettings>;
    private readonly source: Source;
    private readonly placements: Placements | null = null;
    private readonly lease: string;
    private readonly handlers: Handlers = { execute: new Map(), revert: new Map() };
    private readonly inFlight = new Map<string, Work>();  // claimed and not yet reported
    private waiting: Work[] = [];
    private finished: Result[] = [];
    private running = 0;
    private stopping = false;
    private client: pg.Client | null = null;
    private isBegun = false;  // the source has seen the connection
    private wasConnected = false;
    private inDoubt = false;
    private asleep = false;
    private cannotSleep = false;
    private gaveBack = false;
    private rung = false;
    private bell: (() => void) | null = null;

    constructor(settings: WorkerSettings = {}) {
        const concurrency = settings.concurrency ?? 4;
        const onMessage = guarded(settings.onMessage ?? ((text: string) => console.error(`pawl: ${text}`)));
        this.settings = {
            connection: {}, source: new Steps(), placed: false, concurrency, batch: 2 * concurrency, lease: 60_000,
            grace: 30_000, shortestPoll: 5, longestPoll: 1000, wake: true, pooler: 'none', ...settings, onMessage,
            onDropped: guarded(settings.onDropped ?? ((job) => onMessage(`dropped the result of ${job.key}`)),
                (why) => onMessage(`onDropped failed: ${why}`)),
        };
        this.source = this.settings.source;
        this.lease = `${this.settings.lease} ms`;
        if (!this.settings.placed) return;
        if (!(this.source instanceof Steps))
            throw new PawlError('a worker that follows its queue to other databases works on steps');
        this.source.placed = true;
        this.placements = new Placements(this.settings.connection);
    }

    /** Registers a handler. What it returns is the result, what it throws a failure. "" gets what has no other. */
    on(handler: string, run: Handler): this {
        this.handlers.execute.set(handler, run);
        return this;
    }

    /** Registers what reverts tasks of flows: the handler that reverts, or executes, the task. */
    onRevert(handler: string, run: Handler): this {
        this.handlers.revert.set(handler, run);
        return this;
    }

    stop(): void {
        this.stopping = true;
        this.ring();
    }

    /** Works until it is stopped. Losses of the database are survived; an error that no retry can cure is thrown. */
    async run(signals: NodeJS.Signals[] = ['SIGTERM', 'SIGINT']): Promise<void> {
        const stop = (): void => this.stop();
        for (const name of signals) process.on(name, stop);
        const ended = new AbortController();
        const heartbeats = this.heartbeats(ended.signal);
        try {
            await this.loop();
            await this.drain();
        } finally {
            ended.abort();
            await heartbeats;
            await this.client?.end().catch(() => undefined);
            for (const name of signals) process.off(name, stop);
        }
    }

    // Handlers.

    private begin(): void {
        while (this.running < this.settings.concurrency) {
            const work = this.waiting.shift();
            if (!work) return;
            ++this.running;
            void handle(this.handlers, work).then((result) => {
                --this.running;
                this.finished.push(result);
                this.ring();
                this.begin();
            });
        }
    }

    // The session and its loop.

    private ring(): void {
        this.rung = true;
        this.bell?.();
    }

    /** Waits for results, stop() or a notification. True: there was one of them. */
    private async rest(milliseconds: number): Promise<boolean> {
        if (!this.rung)
            await new Promise<void>((resolve) => {
                const timer = setTimeout(resolve, milliseconds);
                this.bell = () => {
                    clearTimeout(timer);
                    resolve();
                };
            });
        this.bell = null;
        const rung = this.rung;
        this.rung = false;
        return rung;
    }

    private async connect(): Promise<pg.Client> {
        const found = await this.placements?.find('dag', this.source.queue ?? '');
        const client = new pg.Client(found ?? this.settings.connection);
        client.on('error', () => undefined);  // the next query tells
        await client.connect();
        return client;
    }

    private async session(): Promise<pg.Client> {
        if (!this.client) {
            this.client = await this.connect();
            this.isBegun = false;
            this.client.on('notification', () => {
                this.asleep = false;
                this.ring();
            });
        }
        if (!this.isBegun) {
            await this.source.prepare(this.client);
            if (this.wasConnected) {
                ++this.counts.reconnects;
                this.settings.onMessage('connected again');
                await this.addOwned(this.client);
            }
            this.wasConnected = this.isBegun = true;
            this.asleep = this.cannotSleep = false;
        }
        return this.client;
    }

    /** Asks where the queue is; a database that is lost meanwhile does not say it. */
    private async learn(rejecting: pg.Client): Promise<void> {
        await this.placements?.learn(rejecting, 'dag', this.source.queue ?? '').catch(() => undefined);
    }

    private async loop(): Promise<void> {
        const { shortestPoll, longestPoll } = this.settings;
        let wait = shortestPoll;
        while (!this.stopping) {
            try {
                const found = await this.turn(await this.session());
                if (found || (await this.wait(wait))) wait = shortestPoll;
                else wait = Math.min(2 * wait, longestPoll);
            } catch (caught) {
                await this.survive(caught);
                await this.rest(Math.max(wait, 50));
                wait = Math.min(2 * wait, longestPoll);
            }
        }
    }

    private async survive(caught: unknown): Promise<void> {
        const error = errorOf(caught);
        const elsewhere = error instanceof PlacedElsewhere && this.placements !== null && this.client !== null;
        if (elsewhere) await this.learn(this.client!);
        const lost = elsewhere || error instanceof ConnectionLost;
        if (!lost && !(error instanceof PawlError && isTransient(error.sqlstate))) throw error;
        const known = this.client ? 'connection lost' : 'cannot connect, will retry';
        this.settings.onMessage(`${lost ? known : 'temporary error, will retry'}: ${error.message}`);
        if (lost) void this.client?.end().catch(() => undefined);
        if (lost) this.client = null;
    }

    private async turn(client: pg.Client): Promise<boolean> {
        const reported = await this.report(client);
        if (this.gaveBack) await this.addOwned(client);
        const { batch, concurrency } = this.settings;
        const room = batch - this.inFlight.size;
        if (room <= 0 || (room < batch / 2 && this.inFlight.size >= concurrency)) return reported;
        const found = await this.source.claim(client, this.processor, this.lease, room);
        this.add(found);
        return reported || found.length > 0;
    }

    /** Begins again what it owns and does not handle; a draining worker gives it back. */
    private async addOwned(client: pg.Client): Promise<void> {
        this.gaveBack = false;
        if (this.stopping) return;
        const found = await this.source.owned(client, this.processor);
        if (found) this.add(found);
        else this.processor = randomUUID();  // no heartbeat extends what belongs to the one before
    }

    private add(found: Work[]): void {
        for (const work of found) {
            if (this.inFlight.has(idOfWork(work))) continue;
            this.inFlight.set(idOfWork(work), work);
            ++this.counts.claimed;
            this.waiting.push(work);
        }
        this.begin();
    }

    private async wait(milliseconds: number): Promise<boolean> {
        const { wake, pooler, shortestPoll } = this.settings;
        if (wake && pooler !== 'transaction' && !this.asleep && !this.cannotSleep && milliseconds > shortestPoll) {
            this.asleep = await this.sleep(await this.session());
            this.cannotSleep = !this.asleep;
            if (this.asleep) return true;  // for what came before was not notified: look once more
        }
        return this.rest(milliseconds);
    }

    /** Asks for a notification of the next work. A lock of the session could stay with others behind a pooler that is
     * not named: there the worker polls. */
    private async sleep(client: pg.Client): Promise<boolean> {
        const { processID } = client as { processID?: number };
        try {
            const { rows } = await client.query(
                'SELECT CASE WHEN $1::boolean OR pg_catalog.pg_backend_pid() = $2::integer' +
                    " THEN coalesce(pawl.sleep($3::text::regclass), '') END AS channel",
                [this.settings.pooler === 'session', processID, this.source.relation],
            );
            return rows[0].channel !== null;
        } catch (caught) {
            if (errorOf(caught) instanceof ConnectionLost) throw caught;
            return false;  // the binding has no wake-ups, or the role may not wait
        }
    }

    // Results.

    private async report(client: pg.Client): Promise<boolean> {
        const results = this.finished;
        this.finished = [];
        const givenBack = results.filter((one) => one.outcome === 'given_back');
        this.forget(givenBack);
        this.gaveBack ||= givenBack.length > 0;
        let left = results.filter((one) => one.outcome !== 'given_back');
        const any = left.length > 0;
        while (left[0]) {
            const { processor } = left[0].work;
            const part = firstPart(left);
            let accepted: Set<string>;
            try {
                accepted = await this.reportPart(client, processor, part);
            } catch (caught) {
                this.inDoubt = true;
                this.finished.push(...left);
                throw caught;
            }
            this.inDoubt = false;
            this.forget(part);
            for (const one of part) {
                const counts = accepted.has(idOfWork(one.work));
                ++this.counts[!counts ? 'dropped' : one.outcome === 'success' ? 'succeeded' : 'failed'];
                if (!counts) this.settings.onDropped(one.work.job);
            }
            left = left.filter((one) => !part.includes(one));
        }
        return any;
    }

    private async reportPart(client: pg.Client, processor: string, part: Result[]): Promise<Set<string>> {
        try {
            return await this.source.report(client, processor, part, this.inDoubt);
        } catch (caught) {
            const error = errorOf(caught);
            const [first] = part;
            const saysNothing = error instanceof ConnectionLost || error instanceof PlacedElsewhere;
            const isRejection = error instanceof PawlError && !saysNothing;
            if (!first || !isRejection || isTransient(error.sqlstate)) throw error;
            if (part.length > 1) {  // what one result does wrong does not stop the others
                const accepted = new Set<string>();
                for (const one of part)
                    for (const id of await this.reportPart(client, processor, [one])) accepted.add(id);
                return accepted;
            }
            if (error instanceof LeaseLost || error instanceof NotTheOwner || first.outcome === 'permanent_failure')
                return new Set();
            const value = { message: `result rejected: ${error.message}` };
            return this.reportPart(client, processor, [{ work: first.work, outcome: 'permanent_failure', value }]);
        }
    }

    private forget(results: Result[]): void {
        for (const one of results) this.inFlight.delete(idOfWork(one.work));
    }

    private async drain(): Promise<void> {
        this.settings.onMessage('draining');
        for (const work of this.waiting) this.inFlight.delete(idOfWork(work));
        this.waiting = [];
        const deadline = performance.now() + this.settings.grace;
        while (this.inFlight.size > 0) {
            const late = performance.now() > deadline;
            try {
                await this.report(await this.session());
            } catch (caught) {
                await this.survive(caught);
                if (late) throw caught;  // without a database nothing can be given back: the leases expire
            }
            if (late) for (const work of this.inFlight.values()) work.abort.abort();
            if (this.inFlight.size > 0) await this.rest(100);
        }
        try {
            const client = await this.session();
            const statement = 'SELECT pawl.abandon($1::text::regclass, $2)::integer AS n';
            const { rows } = await client.query(statement, [this.source.relation, this.processor]);
            this.counts.abandoned += rows[0].n;
        } catch (caught) {
            const why = `claimed rows were not returned, their leases expire: ${errorOf(caught).message}`;
            if (this.wasConnected) this.settings.onMessage(why);
        }
    }

    // Leases.

    private async heartbeats(ended: AbortSignal): Promise<void> {
        const { lease, onMessage } = this.settings;
        let client: pg.Client | null = null;
        let extendedAt = performance.now();
        for (;;) {
            await new Promise<void>((resolve) => {
                const timer = setTimeout(resolve, Math.max(lease / 3, 10));
                ended.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
            });
            if (ended.aborted) break;
            const began = performance.now();
            const known = [...this.inFlight.values()];
            try {
                if (known.length > 0 && !client) {
                    client = await this.connect();
                    await this.source.prepare(client);
                }
                for (const processor of client ? new Set(known.map((work) => work.processor)) : []) {
                    await client!.query('SELECT pawl.heartbeat($1::text::regclass, $2, $3::interval)', [
                        this.source.relation, processor, this.lease,
                    ]);
                    const owned = await this.source.tokens(client!, processor);
                    await this.source.requireRows(client!);  // where they have left, it owns none, and has lost none
                    for (const work of known)
                        if (work.processor === processor && !owned.has(idOfWork(work))) work.abort.abort();
                }
                extendedAt = began;
            } catch (caught) {
                onMessage(`heartbeat failed: ${errorOf(caught).message}`);
                if (client && errorOf(caught) instanceof PlacedElsewhere) await this.learn(client);
                void client?.end().catch(() => undefined);
                client = null;
                const expired = performance.now() - lease;
                for (const work of extendedAt < expired ? known : [])
                    if (work.claimedAt < expired) work.abort.abort();
            }
        }
        await client?.end().catch(() => undefined);
    }
}
