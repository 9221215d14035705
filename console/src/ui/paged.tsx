// Lists in pages: the first page is kept up to date, pages that "More" loads are added below it. A filter may search
// for long and find little: a short page that is not the last is followed by the next one automatically, for a while.
import { useEffect, useState } from "preact/hooks";
import { get, type Page, type Query } from "../api";
import { useLive, type LiveOptions, type Loaded } from "../live";

export interface Paged<T> {
    first: Loaded<Page<T>>;
    items: T[];
    next: string | null;
    /** The rows found so far do not fill a page, and there are more rows to search. */
    partial: boolean;
    /** The next page is being loaded. */
    looking: boolean;
    more: (cursor: string) => void;
}

interface Later<T> {
    key: string;
    pages: number;
    items: T[];
    next: string | null;
    looking: boolean;
    failed: boolean;
}

/** How many pages are loaded automatically. */
export const patience = 20;

export function usePaged<T>(path: string, query: Query, id: (row: T) => string, options?: LiveOptions): Paged<T> {
    const key = path + JSON.stringify(query);
    const full = Number(query.limit ?? 1);
    const none: Later<T> = { key, pages: 0, items: [], next: null, looking: false, failed: false };
    const first = useLive(key, (signal) => get<Page<T>>(path, query, signal), options);
    const [later, setLater] = useState<Later<T>>(none);
    const mine = later.key === key ? later : none;
    const seen = new Set((first.data?.items ?? []).map(id));
    const items = [...(first.data?.items ?? []), ...mine.items.filter((row) => !seen.has(id(row)))];
    const next = mine.pages > 0 ? mine.next : (first.data?.next ?? null);
    const partial = next !== null && items.length < full;

    const more = async (cursor: string) => {
        const change = (by: (old: Later<T>) => Partial<Later<T>>) =>
            setLater((old) => {
                const mine = old.key === key ? old : none;
                return { ...mine, ...by(mine) };
            });
        change(() => ({ looking: true }));
        try {
            const page = await get<Page<T>>(path, { ...query, cursor });
            // the answer to a query that has changed meanwhile is dropped
            setLater((old) =>
                old.key !== key
                    ? old
                    : {
                          ...old,
                          pages: old.pages + 1,
                          items: [...old.items, ...page.items],
                          next: page.next,
                          looking: false,
                          failed: false,
                      },
            );
        } catch {
            setLater((old) => (old.key !== key ? old : { ...old, looking: false, failed: true }));
        }
    };
    useEffect(() => {
        if (partial && !mine.looking && !mine.failed && mine.pages < patience && next) void more(next);
    }, [key, partial, mine.looking, mine.failed, mine.pages, next]);
    return { first, items, next, partial, looking: mine.looking, more: (cursor) => void more(cursor) };
}
