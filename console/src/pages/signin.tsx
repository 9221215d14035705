import { useState } from "preact/hooks";
import { get, token } from "../api";
import { Trouble } from "../ui/parts";
import type { Session } from "../types";

export function SignIn({ entered, note }: { entered: (s: Session) => void; note: string | null }) {
    const [value, set] = useState("");
    const [error, setError] = useState<unknown>(null);
    const [busy, setBusy] = useState(false);
    const submit = async (e: Event) => {
        e.preventDefault();
        setBusy(true);
        setError(null);
        token.set(value.trim());
        try {
            entered(await get<Session>("/v1/session"));
        } catch (problem) {
            token.clear();
            setError(problem);
        }
        setBusy(false);
    };
    return (
        <main class="signin" id="main">
            <form onSubmit={submit}>
                <h1>
                    <img src="./icon.svg" alt="" width="28" height="28" /> pawl
                </h1>
                {note && (
                    <p class="sub" role="status">
                        {note}
                    </p>
                )}
                <label class="field">
                    <span>Token</span>
                    <input
                        name="token"
                        type="password"
                        required
                        autoFocus
                        autocomplete="off"
                        spellcheck={false}
                        value={value}
                        onInput={(e) => set(e.currentTarget.value)}
                    />
                </label>
                {error !== null && <Trouble error={error} />}
                <button class="primary" disabled={busy} type="submit">
                    {busy ? "…" : "Sign in"}
                </button>
                <p class="faint">
                    The token stays in this tab and is forgotten when it is closed. An administrator creates one with{" "}
                    <code>pawl_api.create_token</code>.
                </p>
            </form>
        </main>
    );
}
