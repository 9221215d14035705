// Places in a text by line and column, as the findings of a diagram name them. Pure.

export interface Finding {
    severity: "error" | "warning" | "info";
    code: string;
    line: number;
    col: number;
    message: string;
}

export interface Checked {
    findings: Finding[];
    hint: string | null;
    diagram: string | null;
}

/** The offset of a line and column (from 1, in bytes of UTF-8) in a text; a place outside is the nearest one inside. */
export function offsetOf(text: string, line: number, col: number): number {
    const lines = text.split("\n");
    const index = Math.min(Math.max(line, 1), lines.length) - 1;
    const before = lines.slice(0, index).reduce((n, l) => n + l.length + 1, 0);
    let bytes = 1;
    let offset = 0;
    for (const c of lines[index] ?? "") {
        if (bytes >= col) break;
        bytes += new TextEncoder().encode(c).length;
        offset += c.length;
    }
    return before + offset;
}

/** What a screen reader is told after a pause in typing. */
export function summary(checked: Checked): string {
    const of = (s: Finding["severity"]) => checked.findings.filter((f) => f.severity === s).length;
    const errors = of("error"),
        warnings = of("warning");
    const words = [
        errors > 0 ? `${errors} error${errors === 1 ? "" : "s"}` : "",
        warnings > 0 ? `${warnings} warning${warnings === 1 ? "" : "s"}` : "",
    ].filter(Boolean);
    return words.length > 0 ? words.join(", ") : "No errors or warnings";
}

export const first = `stateDiagram-v2
    [*] --> open
    open --> answered : answer
    answered --> open : ask again
    answered --> closed : close
    closed --> [*]
`;
