# The worker of the scenarios in Python. See README.md.
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../client/python"))
import pawl  # noqa: E402

source, lease, grace = sys.argv[1], float(sys.argv[2]) / 1000, float(sys.argv[3]) / 1000
sources = {
    "table": lambda: pawl.Table("work", success="finish", failure="fail", permanent_failure="give_up"),
    "steps": lambda: pawl.Steps("default"),
    "rows": lambda: pawl.OperationRows(),
    "flows": lambda: pawl.FlowTasks("default"),
}
worker = pawl.Worker(
    "application_name=scenario",
    sources[source](),
    placed="PAWL_PLACED" in os.environ,
    threads=4,
    lease=lease,
    grace=grace,
    longest_poll=0.1,
    on_message=lambda text: print(text, file=sys.stderr, flush=True),
    on_dropped=lambda job: print("dropped: " + job.key, file=sys.stderr, flush=True),
)


@worker.on("")
def handle(job):
    kind = job.context["kind"]
    if kind == "poison":
        raise RuntimeError("as always")
    if kind == "hopeless":
        raise pawl.PermanentFailure("no other attempt can succeed")
    if kind == "strange":
        value = 1
        for _ in range(600):
            value = [value]
        return value
    if kind == "slow":
        time.sleep(0.5)
    while kind == "held" and not os.path.exists(job.context["until"]):
        time.sleep(0.01)
    if kind == "hangs" and job.token == 1:
        job.stop.wait(60)
        raise RuntimeError("was asked to stop")
    return {"kind": kind}


worker.on_revert("", lambda job: None)
print("works as " + worker.processor, file=sys.stderr, flush=True)
worker.run()
print(" ".join(f"{name}={worker.counts[name]}" for name in ("succeeded", "failed", "dropped", "abandoned")))
