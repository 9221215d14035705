// Tables of rows, which can be ticked.
import type { ComponentChildren } from "preact";
import { short } from "../format";
import { Empty } from "./parts";

/** Rows that are ticked, by their key. */
export interface Ticks {
    ids: Set<string>;
    all: boolean;
    tick: (ids: string[], on: boolean) => void;
}

function Tick({ ticks, ids, label }: { ticks: Ticks; ids: string[]; label: string }) {
    return (
        <input
            type="checkbox"
            aria-label={label}
            checked={ticks.all || (ids.length > 0 && ids.every((id) => ticks.ids.has(id)))}
            disabled={ticks.all || ids.length === 0}
            onChange={(e) => ticks.tick(ids, e.currentTarget.checked)}
        />
    );
}

export interface Column<T> {
    head: string;
    cell: (row: T) => ComponentChildren;
    kind?: "num" | "grow" | "tight";
}

/** A table that becomes a list of cards where there is no room. */
export function Table<T>({
    of,
    columns,
    empty,
    rowKey,
    caption,
    ticks,
    tickKey,
}: {
    of: T[];
    columns: Column<T>[];
    empty: ComponentChildren;
    rowKey?: (row: T) => string;
    caption?: string;
    /** With it, rows can be ticked. */
    ticks?: Ticks | null;
    /** What is ticked with a row; null: the row cannot be ticked. By default its key. */
    tickKey?: (row: T) => string | null;
}) {
    if (of.length === 0) return <Empty>{empty}</Empty>;
    const idOf = tickKey ?? rowKey ?? (() => null);
    const ids = of.map(idOf).filter((id): id is string => id !== null);
    return (
        <div class="scroll">
            <table>
                {caption && <caption class="hidden">{caption}</caption>}
                <thead>
                    <tr>
                        {ticks && (
                            <th class="tick" scope="col">
                                <Tick ticks={ticks} ids={ids} label="Tick all rows that are shown" />
                            </th>
                        )}
                        {columns.map((c) => (
                            <th class={c.kind} scope="col" key={c.head}>
                                {c.head}
                            </th>
                        ))}
                    </tr>
                </thead>
                <tbody>
                    {of.map((row, i) => (
                        <tr key={rowKey ? rowKey(row) : i}>
                            {ticks && (
                                <td class="tick" data-head="Tick">
                                    <div>
                                        <Tick
                                            ticks={ticks}
                                            ids={[idOf(row)].filter((id): id is string => id !== null)}
                                            label={`Tick ${short(idOf(row) ?? "")}`}
                                        />
                                    </div>
                                </td>
                            )}
                            {columns.map((c) => (
                                <td class={c.kind} data-head={c.head} key={c.head}>
                                    <div>{c.cell(row)}</div>
                                </td>
                            ))}
                        </tr>
                    ))}
                </tbody>
            </table>
        </div>
    );
}
