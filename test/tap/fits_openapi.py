#!/usr/bin/env python3
# Reads answers, one JSON object a line ({"operation", "status", "type", "body"}), and
# says which do not fit the OpenAPI document.
import json
import sys

import jsonschema

document = json.load(open(sys.argv[1]))


def close(schema):
    """What a schema does not name must not be answered, also where the schema is open to later fields."""
    if isinstance(schema, dict):
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for part in schema.values():
            close(part)
    elif isinstance(schema, list):
        for part in schema:
            close(part)


close(document["components"]["schemas"])
operations = {o["operationId"]: o for path in document["paths"].values() for o in path.values()}


def content_of(operation, status):
    responses = operation["responses"]
    response = responses.get(str(status)) or responses.get("default") or {}
    if "$ref" in response:
        response = document["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
    return response.get("content", {})


for line in sys.stdin:
    answer = json.loads(line)
    content = content_of(operations[answer["operation"]], answer["status"])
    kind = answer["type"].split(";")[0]
    if kind not in content:
        print(f'{answer["operation"]}: {answer["status"]} has type {kind}, not one of {sorted(content)}')
        continue
    schema = dict(content[kind]["schema"], components=document["components"])
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    for error in validator.iter_errors(answer["body"]):
        print(f'{answer["operation"]}: {answer["status"]} {list(error.absolute_path)}: {error.message[:300]}')
