#!/usr/bin/env python3
"""Makes a client of the OpenAPI document and calls every operation with it: openapi_client.py DOCUMENT BASE TOKEN
KNOWN.

The client is Python source, a method an operation, made of nothing but the document. Arguments are examples made of the
schemas; KNOWN is JSON of what no schema can know: values by name, or by operation and name ("start_task.name"). Each
operation is called with what is required, with everything, and then wrongly in each way that the schemas forbid. Prints
"operation: how: status", and what does not fit the document as "MISFIT ..."."""

import http.client
import json
import re
import sys
import urllib.parse
import uuid
from dataclasses import dataclass

import jsonschema

BOUNDARY = "a1b2c3"


@dataclass
class Answer:
    status: int
    type: str
    body: object


class Link:
    """What the generated methods call."""

    def __init__(self, base, token):
        self.address, self.token = urllib.parse.urlsplit(base).netloc, token

    def send(self, method, path, query, content=None, kind=None):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        query = {name: value for name, value in query.items() if value is not None}
        headers = {"Authorization": "Bearer " + self.token} | ({"Content-Type": kind} if kind else {})
        connection.request(
            method, path + ("?" + urllib.parse.urlencode(query) if query else ""), body=content, headers=headers
        )
        answer = connection.getresponse()
        kind = answer.headers.get_content_type()
        text = answer.read1(4096) if kind == "text/event-stream" else answer.read()
        connection.close()
        return Answer(
            answer.status,
            kind,
            json.loads(text) if kind in ("application/json", "application/problem+json") else text.decode(),
        )

    def json(self, method, path, query, body):
        return self.send(method, path, query, json.dumps(body).encode(), "application/json")

    def form(self, method, path, query, fields):
        parts = [
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"'
            + ('; filename="f.csv"' if name == "file" else "")
            + f"\r\n\r\n{value}\r\n"
            for name, value in fields.items()
        ]
        return self.send(
            method,
            path,
            query,
            ("".join(parts) + f"--{BOUNDARY}--\r\n").encode(),
            f"multipart/form-data; boundary={BOUNDARY}",
        )


class Operation:
    def __init__(self, document, path, method, said):
        self.document, self.path, self.method, self.said, self.name = (
            document,
            path,
            method.upper(),
            said,
            said["operationId"],
        )
        self.parameters = [self.resolved(p) for p in said.get("parameters", [])]
        content = said.get("requestBody", {}).get("content", {})
        self.body_type = next(iter(content), None)
        self.body = self.resolved(content[self.body_type]["schema"]) if content else None

    def resolved(self, thing):
        while "$ref" in thing:
            found = self.document
            for key in thing["$ref"].split("/")[1:]:
                found = found[key]
            thing = found
        return thing

    def within(self, place):
        return [p for p in self.parameters if p["in"] == place]

    def source(self):
        """The method of the client."""
        paths = [p["name"] for p in self.within("path")]
        queries = [p["name"] for p in sorted(self.within("query"), key=lambda p: not p["required"])]
        required = [p["name"] for p in self.within("query") if p["required"]]
        arguments = (
            paths
            + (["body"] if self.body else [])
            + (["*"] if queries else [])
            + [q if q in required else f"{q}=None" for q in queries]
        )
        path = re.sub(r"\{(\w+)\}", r"{quote(str(\1), safe='')}", self.path)
        send = {None: "send", "application/json": "json", "multipart/form-data": "form"}[self.body_type]
        return (
            f"    def {self.name}({', '.join(['self', *arguments])}):\n"
            f"        return self.{send}({self.method!r}, f\"{path}\", "
            f"{{{', '.join(f'{q!r}: {q}' for q in queries)}}}{', body' if self.body else ''})\n"
        )

    def misfits(self, answer):
        responses = self.said["responses"]
        content = self.resolved(responses.get(str(answer.status)) or responses["default"])["content"]
        if answer.type not in content:
            return [f"the type is {answer.type}, not one of {sorted(content)}"]
        schema = dict(content[answer.type]["schema"], components=self.document["components"])
        validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
        return [f"{list(e.absolute_path)}: {e.message[:300]}" for e in validator.iter_errors(answer.body)]


def client_of(operations):
    source = "class Client(Link):\n" + "\n".join(operation.source() for operation in operations)
    space = {"Link": Link, "quote": urllib.parse.quote}
    exec(compile(source, "client", "exec"), space)
    return space["Client"]


class Examples:
    def __init__(self, known):
        self.known = known

    def of(self, operation, name, schema):
        for key in (f"{operation.name}.{name}", name):
            if key in self.known:
                return self.known[key]
        schema = operation.resolved(schema)
        if "enum" in schema:
            return schema["enum"][0]
        if schema.get("format") == "uuid":
            return str(uuid.uuid4())
        if schema.get("format") == "date-time":
            return "2020-02-29T12:00:00+02:00"
        match schema.get("type"):
            case "integer":
                return schema.get("minimum", 1)
            case "boolean":
                return True
            case "array":
                return [self.of(operation, name + "[]", schema["items"])]
            case "object":
                return {}
            case "string":
                return "some text"
        return {"any": ["JSON", 1]}

    def path(self, operation):
        return [self.of(operation, p["name"], p["schema"]) for p in operation.within("path")]

    def query(self, operation, everything):
        return {
            p["name"]: self.of(operation, p["name"], p["schema"])
            for p in operation.within("query")
            # the database that it asks is the only one, and has no name
            if p["required"] or (everything and p["name"] not in ("cursor", "database"))
        }

    def body(self, operation, everything):
        fields = operation.body["properties"]
        required = operation.body.get("required", [])
        return {
            name: self.of(operation, name, schema)
            for name, schema in fields.items()
            if name in required or (everything and f"{operation.name}.{name}" not in self.known.get("without", []))
        }


def wrong_calls(operation, examples):
    """Arguments that the schemas forbid: path, body, query, and in what way."""
    path, query = examples.path(operation), examples.query(operation, False)
    body = (examples.body(operation, False),) if operation.body else ()
    for i, parameter in enumerate(operation.within("path")):
        if parameter["schema"].get("format") == "uuid":
            for other, how in (("nonsense", "is no uuid"), (str(uuid.uuid4()), "is of nothing")):
                yield [*path[:i], other, *path[i + 1 :]], body, query, f"{parameter['name']} {how}"
    for parameter in operation.within("query"):
        if parameter["schema"].get("type") == "integer" or parameter["schema"].get("format"):
            yield path, body, query | {parameter["name"]: "nonsense"}, f"{parameter['name']} is nonsense"
        if "enum" in parameter["schema"]:
            yield path, body, query | {parameter["name"]: "nonsense"}, f"{parameter['name']} is none of its values"
    if operation.body_type == "application/json":
        for name in operation.body.get("required", []):
            yield path, ({k: v for k, v in body[0].items() if k != name},), query, f"without {name}"
        yield path, (body[0] | {"unknown": 1},), query, "with a field that is none"
        yield path, ([1],), query, "with a body that is no object"


def faults_of(document, operations):
    """What makes it no OpenAPI document, as far as a client depends on it."""
    for name, schema in document["components"]["schemas"].items():
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
        except jsonschema.SchemaError as error:
            yield f"schema {name}: {error.message}"
    for operation in operations:
        in_path = set(re.findall(r"\{(\w+)\}", operation.path))
        declared = {p["name"] for p in operation.within("path")}
        if in_path != declared:
            yield f"{operation.name}: the path has {sorted(in_path)}, declared are {sorted(declared)}"
        if "default" not in operation.said["responses"] and operation.said["x-scope"]:
            yield f"{operation.name}: no answer is declared for what goes wrong"
    if len({o.name for o in operations}) != len(operations):
        yield "an operationId is given twice"


def main():
    document = json.load(open(sys.argv[1]))
    examples = Examples(json.loads(sys.argv[4]))
    operations = [
        Operation(document, path, method, said)
        for path, methods in document["paths"].items()
        for method, said in methods.items()
    ]
    for fault in faults_of(document, operations):
        print(f"MISFIT the document: {fault}")
    order = {name: i for i, name in enumerate(examples.known.get("order", []))}
    operations.sort(key=lambda o: order.get(o.name, -1))
    client = client_of(operations)(sys.argv[2], sys.argv[3])

    def call(operation, how, path, body, query):
        answer = getattr(client, operation.name)(*path, *body, **query)
        print(f"{operation.name}: {how}: {answer.status}")
        for misfit in operation.misfits(answer):
            print(f"MISFIT {operation.name}: {how}: {answer.status} {misfit}")
        return answer

    for operation in operations:
        for path, body, query, how in wrong_calls(operation, examples) if operation.said["x-scope"] else ():
            call(operation, "wrong, " + how, path, body, query)
    for operation in operations:
        for how, everything in (("required", False), ("everything", True)):
            body = (examples.body(operation, everything),) if operation.body else ()
            answer = call(operation, how, examples.path(operation), body, examples.query(operation, everything))
            if (
                isinstance(answer.body, dict)
                and answer.body.get("next")
                and any(p["name"] == "cursor" for p in operation.parameters)
            ):
                call(
                    operation,
                    "next page",
                    examples.path(operation),
                    body,
                    examples.query(operation, everything) | {"cursor": answer.body["next"]},
                )


main()
