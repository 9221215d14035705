// The steps of a workflow, or the atoms of a flow, as boxes and lines.
import { useMemo } from "preact/hooks";
import { box, draw, type Edge, type Node } from "../dag";
import { spoken, tone } from "../format";
import { Zoom } from "./zoom";

function cut(text: string, most: number): string {
    return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

export function Graph({
    nodes,
    edges,
    chosen,
    choose,
    label,
}: {
    nodes: Node[];
    edges: Edge[];
    chosen?: string | null;
    choose?: (id: string) => void;
    label: string;
}) {
    // positions depend on the structure alone, so that nothing moves when a state changes
    const structure = nodes.map((n) => n.id).join() + "|" + edges.map((e) => e.from + ">" + e.to).join();
    const picture = useMemo(() => draw(nodes, edges), [structure]);
    // a wide level makes the graph high: the first node is shown, not the upper corner
    const left = Math.min(...picture.nodes.map((n) => n.x));
    const first = picture.nodes.filter((n) => n.x === left).map((n) => n.y);
    const begin = (Math.min(...first) + Math.max(...first) + box.height) / 2;
    const chosenNode = picture.nodes.find((n) => n.id === chosen);
    const at = chosenNode ? { x: chosenNode.x + box.width / 2, y: chosenNode.y + box.height / 2 } : { x: 0, y: begin };
    const now = new Map(nodes.map((n) => [n.id, n]));
    const press = (id: string) => (e: KeyboardEvent) => {
        if (e.key === "Enter" || e.key === " ") {
            e.preventDefault();
            choose?.(id);
        }
    };
    return (
        <Zoom label={label} drawn={structure} size={() => picture} begin={() => at}>
            <svg viewBox={`0 0 ${picture.width} ${picture.height}`}>
                {picture.lines.map((l) => (
                    <path
                        key={l.from + l.to}
                        class={`line ${l.from === chosen || l.to === chosen ? "lit" : ""}`}
                        d={l.path}
                    />
                ))}
                {picture.nodes.map(({ id, x, y }) => {
                    const n = now.get(id)!;
                    return (
                        <g
                            key={id}
                            class={`node ${tone(n.state)} ${id === chosen ? "chosen" : ""}`}
                            transform={`translate(${x} ${y})`}
                            data-name={n.label}
                            data-state={n.state}
                            {...(choose
                                ? {
                                      role: "button",
                                      tabindex: 0,
                                      "aria-pressed": id === chosen,
                                      onClick: () => choose(id),
                                      onKeyDown: press(id),
                                  }
                                : {})}
                        >
                            <title>{`${n.label}: ${spoken(n.state)}${n.note ? ", " + n.note : ""}`}</title>
                            <rect width={box.width} height={box.height} rx="6" />
                            <rect class="edge" width="4" height={box.height} rx="2" />
                            <text x="14" y="19">
                                {cut(n.label, 22)}
                            </text>
                            <text class="second" x="14" y="36">
                                {cut(spoken(n.state) + (n.note ? " · " + n.note : ""), 29)}
                            </text>
                        </g>
                    );
                })}
            </svg>
        </Zoom>
    );
}
