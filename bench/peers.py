"""The table of peers: what users would take instead of pawl, measured beside it by any part."""

from dataclasses import dataclass

from tables import table

BESIDE = (
    "What you would take instead of pawl for the same work, each line measured in one run on one server with the same "
    "settings. The figures are rows, jobs, steps or tasks a second; above 1 in the column pawl ×, pawl is quicker. "
    "What each keeps of a state change says what you get for it. Peers whose source is not in Debian or npm are "
    "measured where `BENCH_PEERS` names a folder with it (see [README](README.md))."
)
LOGGED = "every state change, in a log that clients cannot edit; no other change is possible"
# What users would take instead, by the word that its lines begin with.
PEERS = (
    "Statesman",
    "plpgsql",
    "a queue written by hand",
    "pgmq",
    "pg-boss",
    "graphile-worker",
    "pgflow",
    "absurd",
    "TaskFlow",
)


@dataclass
class Beside:
    """One line of the table of peers."""

    what: str
    pawl: float
    peer: str
    measured: float  # the peer's
    ratio: float  # pawl's against the peer's, the median of rounds; above one pawl is quicker
    keeps: str  # what the peer stores of it, and what it enforces
    pawl_keeps: str = LOGGED


def peers_table(lines):
    return table(
        ["what", "pawl", "peer", "peer's", "pawl ×", "pawl keeps", "the peer keeps"],
        [
            [b.what, f"{b.pawl:,.0f}", b.peer, f"{b.measured:,.0f}", f"{b.ratio:.2f}", b.pawl_keeps, b.keeps]
            for b in lines
        ],
    )


def left_out(lines):
    """A sentence about peers that were not measured, if there are any."""
    missing = [peer for peer in PEERS if not any(peer in line.peer for line in lines)]
    return f" Not there, and left out: {', '.join(missing)}." if missing else ""
