// Where one is: in the fragment of the address, so that the server has one page to serve. Parsing is pure.
import { useEffect, useState } from "preact/hooks";

export interface Place {
    path: string[];
    query: Record<string, string>;
}

export function parsePlace(fragment: string): Place {
    const [path = "", query = ""] = fragment.replace(/^#\/?/, "").split("?", 2);
    const decoded = path
        .split("/")
        .filter(Boolean)
        .map((part) => {
            try {
                return decodeURIComponent(part);
            } catch {
                return part;
            }
        });
    return { path: decoded, query: Object.fromEntries(new URLSearchParams(query)) };
}

/** The database that the address chooses; empty: none. */
export const chosen = (): string => parsePlace(globalThis.location?.hash ?? "").query.database ?? "";

/** The address of a place; empty filters are left out. The chosen database stays, unless the query has another. */
export function link(
    path: (string | number)[],
    query: Record<string, string | number | null | undefined> = {},
): string {
    const pairs = Object.entries({ database: chosen(), ...query }).filter(
        ([, value]) => value !== null && value !== undefined && value !== "",
    ) as [string, string | number][];
    const text = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
    return "#/" + path.map((part) => encodeURIComponent(String(part))).join("/") + (text ? "?" + text : "");
}

export function go(address: string, replace = false): void {
    if (replace) {
        history.replaceState(null, "", address);
        dispatchEvent(new HashChangeEvent("hashchange"));
    } else location.hash = address;
}

/**
 * What an address may keep: tokens do not belong into addresses, and one that a user
 * typed there must not stay in the history.
 */
export function cleaned(search: string, fragment: string): string | null {
    if (search === "" && (fragment === "" || fragment === "#")) return null;
    if (!fragment.startsWith("#/")) return "#/";
    const [path = "", query = ""] = fragment.split("?", 2);
    const kept = [...new URLSearchParams(query)].filter(([name]) => !/token|bearer|authorization/i.test(name));
    const dropped = kept.length < [...new URLSearchParams(query)].length;
    if (search === "" && !dropped) return null;
    return path + (kept.length > 0 ? "?" + new URLSearchParams(kept).toString() : "");
}

export function cleanAddress(): void {
    const fragment = cleaned(location.search, location.hash);
    if (fragment !== null) history.replaceState(null, "", location.pathname + fragment);
}

export function usePlace(): Place {
    const [place, set] = useState(() => parsePlace(location.hash));
    useEffect(() => {
        const changed = () => set(parsePlace(location.hash));
        addEventListener("hashchange", changed);
        return () => removeEventListener("hashchange", changed);
    }, []);
    return place;
}
