// A picture that can be larger than its frame: it opens whole or, if it could not be read then, at its beginning; it
// can be enlarged, moved and shown whole.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { fitted, opened, stepped } from "../scale";

interface Size {
    width: number;
    height: number;
}
export interface Place {
    x: number;
    y: number;
}

/**
 * `drawn` changes when the picture inside is drawn anew, `label` when it is another one; `size` tells how large it is
 * at 100 %, and `begin` the place in it that is in the middle of the frame at first.
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
    begin?: (svg: SVGSVGElement, scale: number) => Place | null;
    class?: string;
    children: ComponentChildren;
}) {
    const frame = useRef<HTMLDivElement>(null);
    // null: as it opens; that and "fit" follow the frame
    const [chosen, choose] = useState<number | "fit" | null>(null);
    const [fit, setFit] = useState(1);
    const open = opened(fit);
    const scale = chosen === "fit" ? fit : (chosen ?? open);
    const placed = useRef<string | null>(null);
    // where one looks, as a part of the whole: a picture that is drawn anew has lost its size and with it the place
    const looked = useRef({ x: 0.5, y: 0.5 });
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
        const middle = looked.current;
        svg.style.maxWidth = "none";
        svg.style.width = whole.width * scale + "px";
        svg.style.height = whole.height * scale + "px";
        const place = `${label} ${chosen === null ? scale : ""}`;
        const first = chosen === null && placed.current !== place ? begin?.(svg, scale) : null;
        if (chosen === null) placed.current = place;
        // without a beginning, the middle stays where it is
        around.scrollLeft = (first ? first.x * scale : middle.x * around.scrollWidth) - around.clientWidth / 2;
        around.scrollTop = (first ? first.y * scale : middle.y * around.scrollHeight) - around.clientHeight / 2;
    }, [scale, drawn, label]);
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
                {open > fit && (
                    <button
                        class="tool"
                        aria-pressed={chosen === null}
                        title="As large as it opens"
                        onClick={() => choose(null)}
                    >
                        Read
                    </button>
                )}
                <button
                    class="tool"
                    aria-pressed={scale === fit}
                    title="The whole picture (0)"
                    onClick={() => choose("fit")}
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
                onScroll={(e) => {
                    const { scrollLeft, scrollTop, clientWidth, clientHeight, scrollWidth, scrollHeight } =
                        e.currentTarget;
                    looked.current = {
                        x: (scrollLeft + clientWidth / 2) / scrollWidth,
                        y: (scrollTop + clientHeight / 2) / scrollHeight,
                    };
                }}
                onKeyDown={(e) => {
                    if (e.ctrlKey || e.metaKey || e.altKey) return;
                    if (e.key === "+") larger();
                    else if (e.key === "-") smaller();
                    else if (e.key === "0") choose("fit");
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
