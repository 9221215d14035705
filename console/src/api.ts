// The HTTP API as the console uses it: the token, errors as problem+json, pages by cursor. The shapes are in types.ts.
import { chosen } from "./router";

export class Problem extends Error {
    constructor(
        readonly status: number,
        readonly title: string,
        readonly detail?: string,
        readonly hint?: string,
        readonly sqlstate?: string,
    ) {
        super(title);
    }
}

const tokenKey = "pawl.token";

// The token is kept for one tab until it is closed: not in a cookie, which requests from other sites would carry.
export const token = {
    get: (): string | null => sessionStorage.getItem(tokenKey),
    set: (value: string): void => sessionStorage.setItem(tokenKey, value),
    clear: (): void => sessionStorage.removeItem(tokenKey),
};

/** Called when the server no longer accepts the token. */
export const signedOut = { call: (): void => {} };

async function problemOf(response: Response): Promise<Problem> {
    const text = await response.text();
    try {
        const p = JSON.parse(text) as Record<string, unknown>;
        return new Problem(
            response.status,
            String(p.detail ?? p.title ?? response.statusText),
            p.facts ? String(p.facts) : undefined,
            p.hint ? String(p.hint) : undefined,
            p.sqlstate ? String(p.sqlstate) : undefined,
        );
    } catch {
        return new Problem(
            response.status,
            text.slice(0, 300) || response.statusText || "the server answered " + response.status,
        );
    }
}

/** A path with the database that pages are about; what is asked of all of them has none. */
export function addressed(path: string): string {
    const database = chosen();
    if (!database || /^\/v1\/(session|databases|events)\b/.test(path)) return path;
    return path + (path.includes("?") ? "&" : "?") + "database=" + encodeURIComponent(database);
}

/** A request that changes something has a key and is not aborted; one with a signal only reads. */
export async function send(method: string, path: string, body?: unknown, more: RequestInit = {}): Promise<Response> {
    const headers = new Headers(more.headers);
    const bearer = token.get();
    if (bearer) headers.set("Authorization", "Bearer " + bearer);
    if (!headers.has("Accept")) headers.set("Accept", "application/json, application/problem+json");
    if (method !== "GET") {
        headers.set("Content-Type", "application/json");
        if (!headers.has("Idempotency-Key") && !more.signal) headers.set("Idempotency-Key", randomKey());
    }
    let response: Response;
    try {
        response = await fetch(addressed(path), {
            ...more,
            method,
            headers,
            credentials: "omit",
            body: method === "GET" ? undefined : JSON.stringify(body ?? {}),
        });
    } catch (e) {
        if (e instanceof DOMException && e.name === "AbortError") throw e;
        throw new Problem(0, "pawld does not answer", "It may be down, or the network in between.");
    }
    if (response.ok || response.status === 304) return response;
    const problem = await problemOf(response);
    if (response.status === 401) signedOut.call();
    throw problem;
}

// crypto.randomUUID exists in secure contexts only, and the console may be served over plain HTTP.
export function randomKey(): string {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

export type Query = Record<string, string | number | boolean | null | undefined>;

export function withQuery(path: string, query: Query = {}): string {
    const pairs = Object.entries(query).filter(([, v]) => v !== null && v !== undefined && v !== "");
    return pairs.length === 0
        ? path
        : path + "?" + new URLSearchParams(pairs.map(([n, v]) => [n, String(v)])).toString();
}

/** What one of several databases answers gets the name of the database, unless it has a field of this name. */
export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
    const response = await send("GET", withQuery(path, query), undefined, { signal });
    const database = response.headers.get("Pawl-Database");
    return { ...(database ? { database } : {}), ...((await response.json()) as T) };
}

export async function text(path: string, signal?: AbortSignal): Promise<string> {
    return await (
        await send("GET", path, undefined, { signal, headers: { Accept: "text/plain, text/vnd.mermaid, */*" } })
    ).text();
}

/** With a key, the request can be sent again: what was done is answered again, and not done twice. */
export async function post<T = unknown>(path: string, body?: unknown, key?: string): Promise<T> {
    const headers: Record<string, string> = key ? { "Idempotency-Key": key } : {};
    const answer = await (await send("POST", path, body, { headers })).text();
    return (answer ? JSON.parse(answer) : null) as T;
}

/** Posts what only reads, because it is too long for an address. */
export async function ask<T>(path: string, body: unknown, signal: AbortSignal): Promise<T> {
    return (await (await send("POST", path, body, { signal })).json()) as T;
}

/** Lets the browser download a file by a single-use link: it is streamed to disk, never held in the page's memory. */
export async function download(path: string, query: Query): Promise<void> {
    const { href } = await get<{ href: string }>(path + "/link", query);
    Object.assign(document.createElement("a"), { href, download: "" }).click();
}

/** A database that is missing in an answer about all of them. */
export interface Unavailable {
    database: string;
    problem: { detail: string };
}

export interface Page<T> {
    items: T[];
    next: string | null;
    unavailable?: Unavailable[];
}

/**
 * A name as a segment of a path. Browsers remove . and .. from paths, encoded or not, so these get an empty parameter.
 */
export function segment(name: string | number): string {
    return name === "." || name === ".." ? name + ";" : encodeURIComponent(String(name));
}
