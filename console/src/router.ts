// Where one is: in the fragment of the address, so that the server has one page to serve. Parsing is pure.
import { useEffect, useState } from "preact/hooks";

export interface Place {
    path: string[];
    query: Record<string, string>;
}

export function parsePlace(fragment: string): Place {
    const [path = "", query = ""] = fragment.replace(/^#\/?/, "").split("?", 2);
    const decoded = path.split("/").filter(Boolean).map((part) => {
        try {
            return decodeURIComponent(part);
        } catch {
            return part;
        }
    });
    return { path: decoded, query: Object.fromEntries(new URLSearchParams(query)) };
}

/** The address of a place; empty filters are left out. */
export function link(path: (string | number)[], query: Record<string, string | number | null | undefined> = {}): string {
    const pairs = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "") as [string, string | number][];
    const text = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
    return "#/" + path.map((part) => encodeURIComponent(String(part))).join("/") + (text ? "?" + text : "");
}

export function go(address: string, replace = false): void {
    if (replace) {
        history.replaceState(null, "", address);
        dispatchEvent(new HashChangeEvent("hashchange"));
    } else location.hash = address;
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
