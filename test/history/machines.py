"""Random machines for the history checker: their diagrams for the server, their transitions for the checker.

A machine is made here from a seed, and the checker validates by what was made here. It never asks the server what a
machine allows.
"""
import random

JOB = {
    "initial": {"ready"},
    "transitions": {
        ("ready", "start", "running"),
        ("running", "finish", "done"),
        ("running", "fail", "ready"),
        ("running", "expire", "ready"),
    },
    "owned": {"running"},
    "claim": "start",
    "final": {"done"},
}


def random_machine(seed):
    """A machine of 4 to 7 states in which every state has two ways out at least and one event leads to one state."""
    rng = random.Random(f"machine {seed}")
    states = [f"s{n}" for n in range(rng.randint(4, 7))]
    transitions = set()
    for state in states:
        for event, target in enumerate(rng.sample([s for s in states if s != state], 2)):
            transitions.add((state, f"e{event}", target))
    return {
        "initial": {states[0], states[1]},
        "transitions": transitions,
        "owned": set(),
        "claim": None,
        "final": set(),
        "states": states,
    }


def diagram(machine):
    """The machine as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state}" for state in sorted(machine["initial"])]
    lines += [f"    {source} --> {target} : {event}" for source, event, target in sorted(machine["transitions"])]
    lines += [f"    {state} --> [*]" for state in sorted(machine["final"])]
    lines += [f"    class {state} owned" for state in sorted(machine["owned"])]
    return "\n".join(lines)
