// The databases that pawld serves, if there are several, and the one that pages are about. It is kept in the address.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { chosen } from "./router";

/** One of the databases that pawld serves. */
export interface Served {
    database: string;
    home: boolean;
    given: boolean;
    ready: boolean;
    reason: string | null;
    figures: {
        waiting: number;
        in_flight: number;
        expired: number;
        dead_letters: number | null;
        tasks_open: Record<string, number> | null;
        sagas_open: Record<string, number> | null;
        bulks_open: number | null;
    } | null;
}
/** A row of a list of several databases. */
export interface Placed {
    database?: string;
}

/** Empty where there is only one. */
export const DatabasesContext = createContext<Served[]>([]);
export const useDatabases = (): Served[] => useContext(DatabasesContext);

/** Whether rows of several databases are shown together, so that each needs its database. */
export function useTogether(): boolean {
    return useDatabases().length > 0 && chosen() === "";
}

/** The database that pages about one of them show: the chosen one, or the one that pawld was given. */
export function useOne(): Served | undefined {
    const databases = useDatabases();
    return databases.find((d) => d.database === chosen()) ?? databases.find((d) => d.given);
}
