// A machine as Mermaid draws it. Mermaid is fetched when the first one is shown.
import { useEffect, useRef, useState } from "preact/hooks";
import { count } from "../format";
import { useDark } from "../theme";
import { Trouble } from "./parts";
import { Zoom, type Place } from "./zoom";

let rendered = 0;

async function render(text: string, dark: boolean): Promise<string> {
    const { default: mermaid } = await import("mermaid");
    mermaid.initialize({
        startOnLoad: false,
        securityLevel: "strict",
        theme: "base",
        htmlLabels: false,
        fontFamily: "system-ui, sans-serif",
        themeVariables: dark
            ? {
                  darkMode: true,
                  background: "#15191e",
                  primaryColor: "#232a32",
                  primaryTextColor: "#e4e9ee",
                  primaryBorderColor: "#4a5662",
                  lineColor: "#8494a3",
                  textColor: "#e4e9ee",
                  edgeLabelBackground: "#15191e",
                  fontSize: "13px",
              }
            : {
                  background: "#ffffff",
                  primaryColor: "#f3f5f7",
                  primaryTextColor: "#1b2228",
                  primaryBorderColor: "#b3bec9",
                  lineColor: "#66727e",
                  textColor: "#1b2228",
                  edgeLabelBackground: "#ffffff",
                  fontSize: "13px",
              },
    });
    return (await mermaid.render("machine" + ++rendered, text)).svg;
}

/** State names as the ids of the picture have them: ….state-<name>-<n>. */
export function stateOf(id: string): string | null {
    return /(?:^|-)state-(.+)-\d+$/.exec(id)?.[1] ?? null;
}

function badges(root: SVGElement, counts: Map<string, { count: number; capped?: boolean }>): void {
    for (const old of root.querySelectorAll("g.live")) old.remove();
    for (const node of root.querySelectorAll<SVGGElement>("g.node")) {
        const state = stateOf(node.id);
        const of = state === null ? undefined : counts.get(state);
        const shape = node.querySelector<SVGGraphicsElement>("rect, path, polygon");
        if (!of || of.count === 0 || !shape) continue;
        const around = node.getBBox();
        const text = count(of.count, of.capped);
        const width = 10 + 7 * text.length;
        const g = document.createElementNS("http://www.w3.org/2000/svg", "g");
        g.setAttribute("class", "live");
        g.setAttribute("transform", `translate(${around.x + around.width - width / 2} ${around.y - 8})`);
        g.innerHTML = `<rect width="${width}" height="17" rx="8.5"/><text x="${width / 2}" y="12.5" text-anchor="middle">${text}</text>`;
        // a class of the diagram colours everything in its nodes, with !important
        for (const [part, colour] of [
            ["rect", "--accent"],
            ["text", "--accent-ink"],
        ] as const)
            g.querySelector<SVGElement>(part)!.style.setProperty("fill", `var(${colour})`, "important");
        g.querySelector<SVGElement>("rect")!.style.setProperty("stroke", "none", "important");
        node.appendChild(g);
    }
}

function sizeOf(frame: HTMLElement): { width: number; height: number } | null {
    return frame.querySelector("svg")?.viewBox.baseVal ?? null;
}

/** Where the machine starts, in the picture's own measure. */
function startOf(svg: SVGSVGElement, scale: number): Place | null {
    const start = svg.querySelector("g.node[id*='root_start']");
    if (!start) return null;
    const whole = svg.getBoundingClientRect();
    const at = start.getBoundingClientRect();
    return { x: (at.left + at.width / 2 - whole.left) / scale, y: (at.top - whole.top) / scale };
}

export function MachineDiagram({
    text,
    counts,
    label,
    bare,
}: {
    text: string;
    counts: Map<string, { count: number; capped?: boolean }>;
    label: string;
    /** The text of the diagram is shown elsewhere. */
    bare?: boolean;
}) {
    const ref = useRef<HTMLDivElement>(null);
    const [error, setError] = useState<unknown>(null);
    const [drawn, setDrawn] = useState(0);
    const dark = useDark();
    useEffect(() => {
        let current = true;
        render(text, dark).then(
            (svg) => {
                if (!current || !ref.current) return;
                ref.current.innerHTML = svg;
                const picture = ref.current.querySelector("svg")!;
                picture.removeAttribute("aria-roledescription");
                picture.setAttribute("role", "img");
                picture.setAttribute("aria-label", label);
                setError(null);
                setDrawn((n) => n + 1);
            },
            (problem) => current && setError(problem),
        );
        return () => {
            current = false;
        };
    }, [text, dark]);
    useEffect(() => {
        const svg = ref.current?.querySelector("svg");
        if (svg) badges(svg, counts);
    }, [drawn, counts]);
    return (
        <>
            {error !== null && <Trouble error={error} />}
            <Zoom label={label} drawn={drawn} size={sizeOf} begin={startOf}>
                <div class="mermaid" ref={ref} />
            </Zoom>
            {!bare && (
                <details class="json">
                    <summary>Text of the diagram</summary>
                    <pre tabIndex={0}>{text}</pre>
                </details>
            )}
        </>
    );
}
