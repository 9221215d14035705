// A picture that can be larger than its frame: it is shown whole at first, and can be enlarged and moved.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { fitted, stepped } from "../scale";

interface Size {
    width: number;
    height: number;
}

/**
 * `drawn` changes when the picture inside is another one; `size` tells how large it is at 100 %, and `begin` how far
 * down it begins, for one that is higher than the frame.
 */
export function Zoom({
    label,
    drawn,
    size,
    begin,
    class: kind = "",
    children,
}: {
    label: string;
    drawn: string | number;
    size: (frame: HTMLElement) => Size | null;
    begin?: number;
    class?: string;
    children: ComponentChildren;
}) {
    const frame = useRef<HTMLDivElement>(null);
    // null: fit, also when the frame changes
    const [chosen, choose] = useState<number | null>(null);
    const [fit, setFit] = useState(1);
    const scale = chosen ?? fit;
    useEffect(() => {
        const around = frame.current!;
        const measure = () => {
            const whole = size(around);
            if (whole) setFit(fitted(whole, { width: around.clientWidth, height: innerHeight * 0.75 }));
        };
        measure();
        const observer = new ResizeObserver(measure);
        observer.observe(around);
        return () => observer.disconnect();
    }, [drawn]);
    useLayoutEffect(() => {
        const around = frame.current!;
        const whole = size(around);
        const svg = around.querySelector("svg");
        if (!whole || !svg) return;
        // the middle stays where it is
        const middle = {
            x: (around.scrollLeft + around.clientWidth / 2) / around.scrollWidth,
            y: (around.scrollTop + around.clientHeight / 2) / around.scrollHeight,
        };
        svg.style.maxWidth = "none";
        svg.style.width = whole.width * scale + "px";
        svg.style.height = whole.height * scale + "px";
        around.scrollLeft = middle.x * around.scrollWidth - around.clientWidth / 2;
        around.scrollTop =
            (chosen === null && begin !== undefined ? begin * scale : middle.y * around.scrollHeight) -
            around.clientHeight / 2;
    }, [scale, drawn]);
    const held = useRef<{ x: number; y: number; left: number; top: number } | null>(null);
    const larger = () => choose(stepped(scale, 1));
    const smaller = () => choose(stepped(scale, -1));
    return (
        <div class="zoom">
            <div class="tools" role="group" aria-label="Size of the picture">
                <button class="tool" aria-label="Smaller" title="Smaller (−)" onClick={smaller}>
                    −
                </button>
                <output class="faint">{Math.round(scale * 100)} %</output>
                <button class="tool" aria-label="Larger" title="Larger (+)" onClick={larger}>
                    +
                </button>
                <button
                    class="tool"
                    aria-pressed={chosen === null}
                    title="The whole picture (0)"
                    onClick={() => choose(null)}
                >
                    Fit
                </button>
            </div>
            <div
                class={"graph " + kind}
                ref={frame}
                tabIndex={0}
                role="group"
                aria-label={label}
                onKeyDown={(e) => {
                    if (e.ctrlKey || e.metaKey || e.altKey) return;
                    if (e.key === "+") larger();
                    else if (e.key === "-") smaller();
                    else if (e.key === "0") choose(null);
                }}
                onPointerDown={(e) => {
                    // fingers scroll by themselves
                    if (e.button !== 0 || e.pointerType === "touch") return;
                    const { scrollLeft: left, scrollTop: top } = e.currentTarget;
                    held.current = { x: e.clientX, y: e.clientY, left, top };
                }}
                onPointerMove={(e) => {
                    if (!held.current || !(e.buttons & 1)) return void (held.current = null);
                    e.currentTarget.scrollLeft = held.current.left + held.current.x - e.clientX;
                    e.currentTarget.scrollTop = held.current.top + held.current.y - e.clientY;
                }}
                onPointerUp={() => void (held.current = null)}
            >
                {children}
            </div>
        </div>
    );
}
