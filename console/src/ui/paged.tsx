// Lists that come in pages: the first is kept true, those that were asked for by "More" are added below it.
import { useEffect, useState } from "preact/hooks";
import { get, type Page, type Query } from "../api";
import { useLive, type LiveOptions, type Loaded } from "../live";

export interface Paged<T> {
    first: Loaded<Page<T>>;
    items: T[];
    next: string | null;
    more: (cursor: string) => void;
}

export function usePaged<T>(path: string, query: Query, id: (row: T) => string, options?: LiveOptions): Paged<T> {
    const key = path + JSON.stringify(query);
    const first = useLive(key, (signal) => get<Page<T>>(path, query, signal), options);
    const [later, setLater] = useState<{ key: string; items: T[]; next: string | null }>({ key, items: [], next: null });
    useEffect(() => setLater({ key, items: [], next: null }), [key]);
    const mine = later.key === key ? later : { key, items: [], next: null };
    const seen = new Set((first.data?.items ?? []).map(id));
    const more = async (cursor: string) => {
        const page = await get<Page<T>>(path, { ...query, cursor });
        setLater((old) => ({ key, items: [...(old.key === key ? old.items : []), ...page.items], next: page.next }));
    };
    return {
        first,
        items: [...(first.data?.items ?? []), ...mine.items.filter((row) => !seen.has(id(row)))],
        next: mine.items.length > 0 ? mine.next : (first.data?.next ?? null),
        more: (cursor) => void more(cursor),
    };
}
