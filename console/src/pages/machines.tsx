import { get, type Page } from "../api";
import { useLive } from "../live";
import { link } from "../router";
import type { MachineLine } from "../types";
import { Head, Num, Show } from "../ui/parts";
import { OfOne } from "../ui/databases";
import { Table } from "../ui/table";

export function MachinesPage() {
    const machines = useLive("machines", (signal) => get<Page<MachineLine>>("/v1/machines", {}, signal), {
        concerns: () => false,
        every: 30_000,
    });
    return (
        <>
            <Head title="Machines" sub="The machines that are defined here, and the tables they are bound to." />
            <OfOne />
            <Show of={machines}>
                {({ items }) => (
                    <Table
                        of={items}
                        empty="No machine is defined."
                        rowKey={(m) => m.machine}
                        columns={[
                            { head: "Machine", cell: (m) => <a href={link(["machines", m.machine])}>{m.machine}</a> },
                            { head: "Version", kind: "num", cell: (m) => m.version },
                            { head: "States", kind: "num", cell: (m) => <Num n={m.states} /> },
                            { head: "Transitions", kind: "num", cell: (m) => <Num n={m.transitions} /> },
                            {
                                head: "Bound to",
                                kind: "grow",
                                cell: (m) =>
                                    m.bindings.length === 0 ? (
                                        <span class="faint">no table</span>
                                    ) : (
                                        m.bindings.map((b) => b.relation + "." + b.state_column).join(", ")
                                    ),
                            },
                        ]}
                    />
                )}
            </Show>
        </>
    );
}
