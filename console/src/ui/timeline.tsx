// State changes of one row, the newest first.
import { secondsBetween, duration } from "../format";
import type { Move } from "../types";
import { Ago, Empty, Json, Owner, State } from "./parts";

export function Timeline({ of }: { of: Move[] }) {
    if (of.length === 0) return <Empty>The log has no entries.</Empty>;
    const newest = [...of].sort((a, b) => b.sort_key - a.sort_key);
    return (
        <ol class="timeline">
            {newest.map((m, i) => {
                const next = newest[i - 1];
                const stayed = next ? secondsBetween(m.created_at, next.created_at) : null;
                return (
                    <li key={m.sort_key}>
                        <div class="when">
                            <span class="faint">#{m.sort_key}</span> <Ago t={m.created_at} />
                        </div>
                        <div class="what">
                            {m.from_state ? <State s={m.from_state} /> : <span class="faint">new</span>}
                            <span class="arrow" aria-hidden="true">
                                →
                            </span>
                            <span class="hidden">to</span>
                            {m.to_state ? <State s={m.to_state} /> : <span class="faint">deleted</span>}
                            {m.event && <code>{m.event}</code>}
                            {stayed !== null && <span class="faint">stayed {duration(stayed)}</span>}
                        </div>
                        <div class="who">
                            {m.actor && <span>{m.actor}</span>} {m.processor && <Owner name={m.processor} />}
                            {m.metadata !== null && m.metadata !== undefined && (
                                <Json value={m.metadata} label="metadata" />
                            )}
                        </div>
                    </li>
                );
            })}
        </ol>
    );
}
