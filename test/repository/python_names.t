#!/usr/bin/env python3
"""What a Python script takes from a script beside it is defined there: a benchmark must not break after an hour."""

import ast
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent


@cache
def top_level(path):
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
    return names


def missing(path, beside):
    tree = ast.parse(path.read_text())
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names if alias.name in beside)
        elif isinstance(node, ast.ImportFrom) and node.module in beside:
            for alias in node.names:
                if alias.name not in beside[node.module]:
                    yield f"line {node.lineno}: {node.module} has no {alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            if node.attr not in beside[node.value.id]:
                yield f"line {node.lineno}: {node.value.id} has no {node.attr}"


def is_python(path):
    return path.suffix == ".py" or path.is_file() and path.read_bytes().startswith(b"#!/usr/bin/env python3")


folders = [TOP / "bench", TOP / "test/history", TOP / "test/mutation"]
scripts = [path for folder in folders for path in sorted(folder.iterdir()) if is_python(path)]
for number, path in enumerate(scripts, 1):
    beside = {other.stem: top_level(other) for other in path.parent.glob("*.py")}
    faults = list(missing(path, beside))
    print("not ok" if faults else "ok", number, "-", path.relative_to(TOP))
    for fault in faults:
        print("#", fault)
print(f"1..{len(scripts)}")
