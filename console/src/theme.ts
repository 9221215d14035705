// Dark, light, or as the system says; the choice is kept in this browser.
import { useEffect, useState } from "preact/hooks";

export type Theme = "system" | "light" | "dark";
const key = "pawl.theme";

function apply(theme: Theme): void {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
}

export function storedTheme(): Theme {
    const kept = localStorage.getItem(key);
    return kept === "light" || kept === "dark" ? kept : "system";
}

apply(storedTheme());

export function useTheme(): [Theme, (t: Theme) => void] {
    const [theme, set] = useState(storedTheme);
    return [
        theme,
        (t) => {
            localStorage.setItem(key, t);
            apply(t);
            set(t);
            dispatchEvent(new Event("pawl-theme"));
        },
    ];
}

export function isDark(): boolean {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Whether it is dark now; changes with the switch and with the system. */
export function useDark(): boolean {
    const [dark, set] = useState(isDark);
    useEffect(() => {
        const look = () => set(isDark());
        const media = matchMedia("(prefers-color-scheme: dark)");
        media.addEventListener("change", look);
        addEventListener("pawl-theme", look);
        return () => {
            media.removeEventListener("change", look);
            removeEventListener("pawl-theme", look);
        };
    }, []);
    return dark;
}
