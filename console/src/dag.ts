// The layout of a workflow's steps: one column for each level, ordered so that few lines cross. Pure.

export interface Node {
    id: string;
    label: string;
    state: string;
    note?: string;
}

export interface Edge {
    from: string;
    to: string;
}

export interface Placed extends Node {
    x: number;
    y: number;
    level: number;
}

export interface Picture {
    nodes: Placed[];
    lines: { from: string; to: string; path: string }[];
    width: number;
    height: number;
}

export const box = { width: 184, height: 46, gapX: 64, gapY: 16, margin: 12, bend: 6 };

/**
 * The length of the longest path to each node; nodes on a cycle (there should be none)
 * keep the level where they were reached.
 */
export function levels(nodes: Node[], edges: Edge[]): Map<string, number> {
    const level = new Map(nodes.map((n) => [n.id, 0]));
    const waits = new Map(nodes.map((n) => [n.id, 0]));
    const after = new Map<string, string[]>();
    for (const e of edges) {
        if (!level.has(e.from) || !level.has(e.to)) continue;
        waits.set(e.to, waits.get(e.to)! + 1);
        after.set(e.from, [...(after.get(e.from) ?? []), e.to]);
    }
    const ready = nodes.filter((n) => waits.get(n.id) === 0).map((n) => n.id);
    for (let id = ready.shift(); id !== undefined; id = ready.shift()) {
        for (const next of after.get(id) ?? []) {
            level.set(next, Math.max(level.get(next)!, level.get(id)! + 1));
            waits.set(next, waits.get(next)! - 1);
            if (waits.get(next) === 0) ready.push(next);
        }
    }
    return level;
}

function meanPlace(ids: string[], place: Map<string, number>, otherwise: number): number {
    const known = ids.map((id) => place.get(id)).filter((n): n is number => n !== undefined);
    return known.length === 0 ? otherwise : known.reduce((a, b) => a + b, 0) / known.length;
}

/** Columns of ids, ordered by two forward and backward sweeps by the mean position of the neighbours. */
export function columns(nodes: Node[], edges: Edge[]): string[][] {
    const level = levels(nodes, edges);
    const cols: string[][] = [];
    for (const n of nodes) (cols[level.get(n.id)!] ??= []).push(n.id);
    const parents = new Map<string, string[]>(),
        children = new Map<string, string[]>();
    for (const e of edges) {
        parents.set(e.to, [...(parents.get(e.to) ?? []), e.from]);
        children.set(e.from, [...(children.get(e.from) ?? []), e.to]);
    }
    const sweep = (order: string[][], neighbours: Map<string, string[]>) => {
        for (let i = 1; i < order.length; ++i) {
            const place = new Map(order[i - 1].map((id, at) => [id, at / Math.max(1, order[i - 1].length)]));
            const weight = new Map(
                order[i].map((id, at) => [id, meanPlace(neighbours.get(id) ?? [], place, at / order[i].length)]),
            );
            order[i].sort((a, b) => weight.get(a)! - weight.get(b)!);
        }
    };
    for (let round = 0; round < 2; ++round) {
        sweep(cols, parents);
        const back = [...cols].reverse();
        sweep(back, children);
    }
    sweep(cols, parents);
    return cols;
}

/** Edges between the shown nodes, contracted through the others (entries and ends of nested flows). */
export function contract(known: Set<string>, edges: Edge[]): Edge[] {
    const after = new Map<string, string[]>();
    for (const e of edges) after.set(e.from, [...(after.get(e.from) ?? []), e.to]);
    const found: Edge[] = [];
    for (const from of known) {
        const seen = new Set<string>();
        const open = [...(after.get(from) ?? [])];
        for (let id = open.pop(); id !== undefined; id = open.pop()) {
            if (seen.has(id)) continue;
            seen.add(id);
            if (known.has(id)) found.push({ from, to: id });
            else open.push(...(after.get(id) ?? []));
        }
    }
    return found;
}

/**
 * Lines over several columns pass through a place of their own in each column between, so that no node hides them; the
 * lines of one node share their places. The graph with these places as nodes, and the places of each line.
 */
function routed(nodes: Node[], edges: Edge[]): { nodes: Node[]; edges: Edge[]; through: Map<Edge, string[]> } {
    const level = levels(nodes, edges);
    const bends = new Map<string, Node>();
    const parts: Edge[] = [];
    const through = new Map<Edge, string[]>();
    for (const e of edges) {
        const passed: string[] = [];
        for (let at = level.get(e.from)! + 1; at < level.get(e.to)!; ++at) {
            const id = `${at} ${e.from}`;
            const last = passed.at(-1) ?? e.from;
            if (!bends.has(id)) parts.push({ from: last, to: id });
            bends.set(id, { id, label: "", state: "" });
            passed.push(id);
        }
        parts.push({ from: passed.at(-1) ?? e.from, to: e.to });
        through.set(e, passed);
    }
    return { nodes: [...nodes, ...bends.values()], edges: parts, through };
}

function curve(x1: number, y1: number, x2: number, y2: number): string {
    const bend = (x2 - x1) / 2;
    return `C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

export function draw(nodes: Node[], edges: Edge[]): Picture {
    if (nodes.length === 0) return { nodes: [], lines: [], width: 0, height: 0 };
    const byId = new Map(nodes.map((n) => [n.id, n]));
    const known = edges.filter((e) => byId.has(e.from) && byId.has(e.to));
    const graph = routed(nodes, known);
    const cols = columns(graph.nodes, graph.edges);
    const tall = (id: string) => (byId.has(id) ? box.height : box.bend) + box.gapY;
    const talls = cols.map((ids) => ids.reduce((sum, id) => sum + tall(id), 0) - box.gapY);
    const height = Math.max(...talls) + 2 * box.margin;
    const spots = new Map<string, { x: number; y: number; level: number }>();
    cols.forEach((ids, level) => {
        let y = (height - talls[level]) / 2;
        for (const id of ids) {
            spots.set(id, { x: box.margin + level * (box.width + box.gapX), y, level });
            y += tall(id);
        }
    });
    const lines = known.map((e) => {
        const a = spots.get(e.from)!,
            b = spots.get(e.to)!;
        let x = a.x + box.width,
            y = a.y + box.height / 2;
        let path = `M${x} ${y}`;
        for (const spot of graph.through.get(e)!.map((id) => spots.get(id)!)) {
            const middle = spot.y + box.bend / 2;
            path += curve(x, y, spot.x, middle) + `H${spot.x + box.width}`;
            x = spot.x + box.width;
            y = middle;
        }
        return { from: e.from, to: e.to, path: path + curve(x, y, b.x, b.y + box.height / 2) };
    });
    return {
        nodes: nodes.map((n) => ({ ...n, ...spots.get(n.id)! })),
        lines,
        width: 2 * box.margin + cols.length * (box.width + box.gapX) - box.gapX,
        height,
    };
}
