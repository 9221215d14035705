// What pages show of several databases: which is chosen, which are missing, how each of them is.
import type { Unavailable } from "../api";
import { useDatabases, useOne, useTogether, type Placed, type Served } from "../databases";
import { count } from "../format";
import { chosen, go, link, type Place } from "../router";
import { Card, Counts, Num } from "./parts";
import type { Column } from "./table";

/** Chooses the database that all pages are about. */
export function DatabaseChoice({ place }: { place: Place }) {
    const databases = useDatabases();
    if (databases.length === 0) return null;
    // what is shown now need not be in the other one; the filters of a list can be kept
    const choose = (database: string) =>
        go(link(place.path.slice(0, 1), { ...(place.path.length === 1 ? place.query : {}), database }));
    return (
        <label class="field databases">
            <span>Database</span>
            <select value={chosen()} onChange={(e) => choose(e.currentTarget.value)}>
                <option value="">All databases</option>
                {databases.map((d) => (
                    <option value={d.database} key={d.database}>
                        {d.database}
                        {d.ready ? "" : " (not ready)"}
                    </option>
                ))}
            </select>
        </label>
    );
}

/** The column of the database in lists of several. */
export function useColumn<T extends Placed>(): Column<T>[] {
    return useTogether() ? [{ head: "Database", cell: (row) => <span class="mono">{row.database}</span> }] : [];
}

/** The database of one thing, behind its other facts. */
export function In({ of }: { of: Placed }) {
    return of.database ? (
        <>
            {" "}
            · database <span class="mono">{of.database}</span>
        </>
    ) : null;
}

/** Says what a list lacks. */
export function Missing({ of, what }: { of: Unavailable[] | undefined; what: string }) {
    if (!of || of.length === 0) return null;
    return (
        <p class="banner bad" role="status">
            {of.map((u) => `Database ${u.database} is missing: ${u.problem.detail}.`).join(" ")} Its {what} are not
            shown.
        </p>
    );
}

/** Says which database a page is about, if there are several. */
export function OfOne() {
    const one = useOne();
    if (!one) return null;
    return (
        <p class="sub about">
            Of database <span class="mono">{one.database}</span>
            {chosen() ? "." : "; another one can be chosen in the menu."}
        </p>
    );
}

function Health({ of }: { of: Served }) {
    const f = of.figures;
    const open = link([], { database: of.database });
    return (
        <Card
            title={
                <>
                    <a href={open}>{of.database}</a>{" "}
                    {of.ready ? <span class="state good">ready</span> : <span class="state bad">not ready</span>}
                </>
            }
            note={of.home ? "home: its placements count" : undefined}
        >
            {of.reason && <p>{of.reason}</p>}
            {f && (
                <dl class="rows">
                    <dt>Waiting</dt>
                    <dd>
                        <Num n={f.waiting} />, <Num n={f.in_flight} /> in flight
                        {f.expired > 0 && <strong class="bad">, {count(f.expired)} expired</strong>}
                    </dd>
                    {f.tasks_open && (
                        <>
                            <dt>Tasks</dt>
                            <dd>
                                <Counts
                                    of={f.tasks_open}
                                    link={(state) => link(["tasks"], { state, database: of.database })}
                                />
                            </dd>
                        </>
                    )}
                    {f.dead_letters !== null && (
                        <>
                            <dt>Dead letters</dt>
                            <dd>
                                <a href={link(["dlq"], { database: of.database })}>{count(f.dead_letters)}</a>
                            </dd>
                        </>
                    )}
                    {f.sagas_open && (
                        <>
                            <dt>Sagas</dt>
                            <dd>
                                <Counts
                                    of={f.sagas_open}
                                    link={(state) => link(["flows"], { state, database: of.database })}
                                />
                            </dd>
                        </>
                    )}
                    {f.bulks_open !== null && (
                        <>
                            <dt>Bulk</dt>
                            <dd>
                                <a href={link(["bulks"], { database: of.database })}>{count(f.bulks_open)} open</a>
                            </dd>
                        </>
                    )}
                </dl>
            )}
        </Card>
    );
}

/** How each database is. */
export function Healths() {
    const databases = useDatabases();
    if (databases.length === 0 || chosen()) return null;
    return (
        <div class="cards">
            {databases.map((d) => (
                <Health of={d} key={d.database} />
            ))}
        </div>
    );
}
