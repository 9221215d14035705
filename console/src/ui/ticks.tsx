// Ticked rows of a list, or all that match its filters, and the actions on them: a bar above the list.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Target } from "../actions";
import { many } from "../format";
import { ActDialog, type Choice } from "./act";
import type { Ticks } from "./table";

export interface Kind {
    /** The route of the actions. */
    path: string;
    one: string;
    more?: string;
    /** The parameter of the filter that leaves out what is created later; without it nothing is. */
    until?: string;
    /** The ids are numbers of rows. */
    rows?: boolean;
    /** The address of an item. */
    href: (id: string) => string;
    choices: Choice[];
}

interface Given {
    kind: Kind;
    /** Whether the role may act; without it nothing can be ticked. */
    may: boolean;
    /** The filters of the list; another filter clears the ticks. */
    filter: Record<string, string>;
    done: () => void;
}

interface Ticked {
    ticks: Ticks | null;
    bar: ComponentChildren;
    /** Stays when the list is empty, because its rows may be gone after the action. */
    dialog: ComponentChildren;
}

/** At most as many as a request takes. */
const mostTicks = 500;

export function useTicks({ kind, may, filter, done }: Given): Ticked {
    const [ids, setIds] = useState<Set<string>>(new Set());
    const [all, setAll] = useState(false);
    const [open, setOpen] = useState<{ choice: Choice; target: Target } | null>(null);
    const used = Object.fromEntries(Object.entries(filter).filter(([, v]) => v !== ""));
    const clear = () => {
        setIds(new Set());
        setAll(false);
    };
    useEffect(clear, [kind.path, JSON.stringify(used)]);
    if (!may) return { ticks: null, bar: null, dialog: null };
    const tick = (which: string[], on: boolean) =>
        setIds((old) => {
            const now = new Set(old);
            for (const id of which) {
                if (!on) now.delete(id);
                else if (now.size < mostTicks) now.add(id);
            }
            return now;
        });
    const target = (): Target =>
        all ? { filter: used } : kind.rows ? { rows: [...ids].map(Number) } : { ids: [...ids] };
    const some = all || ids.size > 0;
    const what = all
        ? `All ${kind.more ?? kind.one + "s"}${Object.keys(used).length > 0 ? " that match these filters" : ""}`
        : many(ids.size, kind.one, kind.more);
    return {
        ticks: { ids, all, tick },
        bar: (
            <div class={some ? "ticked on" : "ticked"} role="group" aria-label="Actions on many">
                <span role="status">{some ? what : `Tick ${kind.more ?? kind.one + "s"} to act on them, or`}</span>
                {!all && (
                    <button class="plain" onClick={() => setAll(true)}>
                        choose all that match
                    </button>
                )}
                {some && (
                    <>
                        {kind.choices.map((choice) => (
                            <button
                                key={choice.action}
                                class={choice.danger ? "danger" : ""}
                                onClick={() => setOpen({ choice, target: target() })}
                            >
                                {choice.verb}…
                            </button>
                        ))}
                        <button class="plain" onClick={clear}>
                            clear
                        </button>
                    </>
                )}
            </div>
        ),
        dialog: open && (
            <ActDialog
                kind={kind}
                choice={open.choice}
                target={open.target}
                what={what}
                close={(acted) => {
                    setOpen(null);
                    if (!acted) return;
                    clear();
                    done();
                }}
            />
        ),
    };
}
