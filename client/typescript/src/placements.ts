/** Where a namespace is, when the work of the packs is divided among several databases. */
import pg, { type ClientBase, type ClientConfig } from 'pg';

import { ConnectionLost, PlacedElsewhere, translated } from './errors.js';

/** A cache of pawl.placement, and calls that go to the right database:
 *
 *     const placements = new Placements({ connectionString: 'postgres://home/work' });
 *     await placements.run('dag', 'billing', (client) => startTask(client, 'invoice', {}, { namespace: 'billing' }));
 *
 * The connections of pawl.database must be URIs for this library. */
export class Placements {
    private databases: Map<string, string> | undefined;
    private home: string | undefined;
    private placements = new Map<string, string>();

    /** member: how to connect to any of the databases. patienceMs: how long run() waits for a namespace that moves. */
    constructor(
        private readonly member: ClientConfig,
        private readonly patienceMs = 300_000,
    ) {}

    /** Reads databases and placements anew: from the home, or from the member if the home does not answer. */
    async refresh(): Promise<void> {
        if (!this.databases) await this.read(this.member);
        if (!this.home) return;
        await this.read(this.settings(this.home)).catch((caught: unknown) => {
            if (!(caught instanceof ConnectionLost)) throw caught;
            return this.read(this.member);
        });
    }

    /** How to connect to the database that a namespace is in. kind: dag, bulk or saga. */
    async find(kind: string, namespace: string): Promise<ClientConfig> {
        if (!this.databases) await this.refresh();
        if (!this.databases?.size) return this.member;
        const name = this.placements.get(`${kind} ${namespace}`) ?? this.placements.get(`${kind} `);
        const connection = name === undefined ? undefined : this.databases.get(name);
        if (connection === undefined)
            throw new PlacedElsewhere(`namespace "${namespace}" of kind "${kind}" is in no database`);
        return this.settings(connection);
    }

    /** Calls body with a client of the namespace's database, in a transaction. Where that database rejects it because
     * the namespace has moved (PW009), it is called again with a client of the one that it names. */
    async run<T>(kind: string, namespace: string, body: (client: ClientBase) => Promise<T>): Promise<T> {
        const deadline = Date.now() + this.patienceMs;
        let wait = 20;
        for (let tries = 0; ; ++tries) {
            const client = new pg.Client(await this.find(kind, namespace));
            await translated(client.connect());
            try {
                await translated(client.query('BEGIN'));
                const result = await translated(body(client));
                await translated(client.query('COMMIT'));
                return result;
            } catch (caught) {
                await client.query('ROLLBACK').catch(() => undefined);
                if (!(caught instanceof PlacedElsewhere) || Date.now() >= deadline) throw caught;
                await this.learn(client, kind, namespace);
            } finally {
                await client.end().catch(() => undefined);
            }
            // where both say that it is in the other one, it is on its way
            if (tries > 0) await new Promise((done) => setTimeout(done, wait));
            if (tries > 0) wait = Math.min(2 * wait, 1000);
            if (tries > 0 && tries % 8 === 0) await this.refresh();
        }
    }

    /** Asks a database that has rejected a namespace (PW009) where it is. */
    async learn(rejecting: ClientBase, kind: string, namespace: string): Promise<void> {
        const { rows } = await translated(
            rejecting.query(
                'SELECT w.database, w.connection FROM pawl.where_is($1::text, $2::text) w WHERE NOT w.here',
                [kind, namespace],
            ),
        );
        if (!rows[0]) return;
        const { database, connection } = rows[0];
        if (!this.databases?.has(database)) this.databases?.set(database, connection);
        this.placements.set(`${kind} ${namespace}`, database);
    }

    private settings(connection: string): ClientConfig {
        return { ...this.member, connectionString: connection };
    }

    private async read(from: ClientConfig): Promise<void> {
        const client = new pg.Client(from);
        await translated(client.connect());
        try {
            const databases = await translated(
                client.query('SELECT d.name, d.connection, d.is_home FROM pawl.database d'),
            );
            const placements = await translated(
                client.query(
                    "SELECT p.kind || ' ' || coalesce(p.namespace, '') AS what, p.database FROM pawl.placement p",
                ),
            );
            this.databases = new Map(databases.rows.map((row) => [row.name, row.connection]));
            this.home = databases.rows.find((row) => row.is_home)?.connection;
            this.placements = new Map(placements.rows.map((row) => [row.what, row.database]));
        } finally {
            await client.end();
        }
    }
}
