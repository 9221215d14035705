"""What a worker reports of the rows that it claimed. A worker makes this text itself. Here the server makes it, in the
plainest way that SQL has, so that little of it counts as work of a queue."""


def element(texts, numbers, result):
    """SQL for the JSON object of a claimed row `c`: its columns as strings and as numbers, and its result, members in
    SQL."""
    strings = [f'"{name}": "\' || c.{name} || \'"' for name in texts]
    others = [f"\"{name}\": ' || c.{name} || '" for name in numbers]
    return "'{" + ", ".join([*strings, *others, f"' || {result} || '"]) + "}'"


def array(elements, condition=None):
    """SQL for the JSON array of the elements, as text; of those that fulfil the condition."""
    of_some = f" filter (where {condition})" if condition else ""
    return f"'[' || coalesce(string_agg({elements}, ', '){of_some}, '') || ']'"


ONE = "'\"result\": 1'"
STEP = element(("task_uuid", "step_uuid"), ("token",), ONE)
TASK = element(("flow_uuid",), ("node", "token"), ONE)
ROW = element(("operation",), ("row_number", "step_index", "token"), "'\"result\": \"ok\"'")
CLAIMED = "c.ok is null"  # of the rows of a report and a claim in one call
