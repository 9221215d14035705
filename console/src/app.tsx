// The shell: the signed-in user, the navigation, the page that is shown.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Page, Problem, signedOut, token } from "./api";
import { DatabasesContext, type Served } from "./databases";
import { follow, SessionContext, useConnected, useLive, useSession } from "./live";
import { chosen, go, link, usePlace, type Place } from "./router";
import { useTheme, type Theme } from "./theme";
import type { Session } from "./types";
import { DatabaseChoice } from "./ui/databases";
import { Empty, Head, Trouble } from "./ui/parts";
import { SignIn } from "./pages/signin";
import { OverviewPage } from "./pages/overview";
import { MachinesPage } from "./pages/machines";
import { MachinePage } from "./pages/machine";
import { DrawPage } from "./pages/draw";
import { RowPage } from "./pages/row";
import { TasksPage } from "./pages/tasks";
import { TaskPage } from "./pages/task";
import { BulksPage } from "./pages/bulks";
import { BulkPage } from "./pages/bulk";
import { FlowsPage } from "./pages/flows";
import { FlowPage } from "./pages/flow";
import { DeadLettersPage } from "./pages/dlq";

const sections: { path: string; name: string; pack?: string }[] = [
    { path: "", name: "Overview" },
    { path: "machines", name: "Machines" },
    { path: "draw", name: "Draw" },
    { path: "row", name: "Timeline" },
    { path: "tasks", name: "Tasks", pack: "pawl_dag" },
    { path: "dlq", name: "Dead letters", pack: "pawl_dag" },
    { path: "bulks", name: "Bulk", pack: "pawl_bulk" },
    { path: "flows", name: "Sagas", pack: "pawl_saga" },
];

function page({ path, query }: Place): ComponentChildren {
    const [section = "", id] = path;
    switch (section) {
        case "":
            return <OverviewPage />;
        case "machines":
            return id ? <MachinePage machine={id} /> : <MachinesPage />;
        case "draw":
            return <DrawPage query={query} />;
        case "row":
            return <RowPage query={query} />;
        case "tasks":
            return id ? <TaskPage task={id} step={query.step ?? null} /> : <TasksPage query={query} />;
        case "dlq":
            return <DeadLettersPage query={query} />;
        case "bulks":
            return id ? <BulkPage operation={id} query={query} /> : <BulksPage query={query} />;
        case "flows":
            return id ? <FlowPage flow={id} /> : <FlowsPage query={query} />;
        default:
            return (
                <>
                    <Head title="There is no such page" />
                    <Empty>
                        <a href={link([])}>To the overview</a>
                    </Empty>
                </>
            );
    }
}

function Live() {
    const connected = useConnected();
    return (
        <span
            class={connected ? "live on" : "live"}
            role="status"
            title={
                connected
                    ? "Changes appear as they happen"
                    : "No event stream: pages are loaded again every few seconds"
            }
        >
            {connected ? "live" : "polling"}
        </span>
    );
}

function ThemeSwitch() {
    const [theme, set] = useTheme();
    const names: Record<Theme, string> = { system: "Auto", light: "Light", dark: "Dark" };
    return (
        <label class="theme">
            <span class="hidden">Colours</span>
            <select value={theme} onChange={(e) => set(e.currentTarget.value as Theme)}>
                {(Object.keys(names) as Theme[]).map((t) => (
                    <option value={t} key={t}>
                        {names[t]}
                    </option>
                ))}
            </select>
        </label>
    );
}

function Shell({ leave }: { leave: () => void }) {
    const place = usePlace();
    const session = useSession();
    const served = useLive("databases", (signal) => get<Page<Served>>("/v1/databases", {}, signal), {
        concerns: () => false,
        every: 10_000,
    });
    const databases = served.data && served.data.items.length > 1 ? served.data.items : [];
    const section = place.path[0] ?? "";
    const main = useRef<HTMLElement>(null);
    const first = useRef(true);
    const at = place.path.join("/");
    useEffect(() => {
        const name = sections.find((s) => s.path === section)?.name ?? "pawl";
        document.title = `${name} – pawl`;
        // for users of a keyboard or a screen reader the focus begins at the heading
        if (!first.current) {
            scrollTo(0, 0);
            main.current?.querySelector<HTMLElement>("h1")?.focus({ preventScroll: true });
        }
        first.current = false;
    }, [at]);
    return (
        <DatabasesContext.Provider value={databases}>
            <div class="shell">
                <a
                    class="skip"
                    href="#main"
                    onClick={(e) => {
                        e.preventDefault();
                        main.current?.focus();
                    }}
                >
                    Skip to the content
                </a>
                <nav aria-label="Sections">
                    <a class="brand" href={link([])}>
                        <img src="./icon.svg" alt="" width="22" height="22" /> pawl
                    </a>
                    <DatabaseChoice place={place} />
                    <ul>
                        {sections
                            .filter((s) => !s.pack || session.packs.includes(s.pack))
                            .map((s) => (
                                <li key={s.path}>
                                    <a
                                        href={link(s.path ? [s.path] : [])}
                                        aria-current={section === s.path ? "page" : undefined}
                                    >
                                        {s.name}
                                    </a>
                                </li>
                            ))}
                    </ul>
                    <div class="foot">
                        <Live />
                        <span class="who" title={`Database role ${session.role}, may ${session.scopes.join(" and ")}`}>
                            {session.person || session.role}
                            {session.scopes.includes("operate") ? "" : " (reads)"}
                        </span>
                        <ThemeSwitch />
                        <button class="plain" onClick={leave}>
                            Sign out
                        </button>
                    </div>
                </nav>
                <main id="main" tabIndex={-1} ref={main} key={at + "@" + chosen()}>
                    {page(place)}
                </main>
            </div>
        </DatabasesContext.Provider>
    );
}

export function App() {
    const [session, setSession] = useState<Session | null>(null);
    const [problem, setProblem] = useState<unknown>(null);
    const [note, setNote] = useState<string | null>(null);
    const [waiting, setWaiting] = useState(token.get() !== null);
    const leave = (why: string | null = null) => {
        token.clear();
        setSession(null);
        setNote(why);
    };
    signedOut.call = () => {
        if (session) leave("The token is no longer valid.");
    };
    const resume = () => {
        if (!token.get()) return setWaiting(false);
        setWaiting(true);
        setProblem(null);
        get<Session>("/v1/session")
            .then(setSession, (e) => (e instanceof Problem && e.status === 401 ? token.clear() : setProblem(e)))
            .finally(() => setWaiting(false));
    };
    useEffect(resume, []);
    useEffect(() => {
        if (!session) return;
        const ended = new AbortController();
        follow(session, ended.signal);
        return () => ended.abort();
    }, [session]);
    if (waiting)
        return (
            <p class="empty" role="status">
                Loading…
            </p>
        );
    if (problem)
        return (
            <main class="signin">
                <Trouble error={problem} again={resume} />
            </main>
        );
    if (!session)
        return (
            <SignIn
                entered={(s) => {
                    setNote(null);
                    setSession(s);
                }}
                note={note}
            />
        );
    return (
        <SessionContext.Provider value={session}>
            <Shell
                leave={() => {
                    go(link([]), true);
                    leave();
                }}
            />
        </SessionContext.Provider>
    );
}
