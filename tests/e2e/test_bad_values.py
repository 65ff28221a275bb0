"""Bad values of every field of every route, made from the server's own description: each is refused with the body that errors have
there, and a normal request is as right afterwards as before."""

import http.client
import json
import urllib.parse

import pytest

from demo import PROMPT

DEEP = "[" * 100_000 + "]" * 100_000
OF_EACH_TYPE = {"boolean": [True], "integer": [7], "number": [7.5], "string": ["x"], "array": [[]], "object": [{}]}
LONG_TEXT = "x" * 300_000


class Raw(str):
    """Stands for itself in a document, as no value of Python's could be written."""


class Connection:
    def __init__(self, url):
        address = urllib.parse.urlsplit(url)
        self.connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)

    def post(self, path, text):
        self.connection.request("POST", path, text, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        body = answer.read()
        return answer.status, answer.headers.get("content-type", ""), body


def resolved(document, schema):
    """The alternatives of a schema, each without references."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    for name in ("anyOf", "oneOf"):
        if name in schema:
            return [one for part in schema[name] for one in resolved(document, part)]
    return [schema]


def types_of(schema):
    types = schema.get("type", [])
    types = {types} if isinstance(types, str) else set(types)
    for value in schema.get("enum", [schema["const"]] if "const" in schema else []):
        types.add({bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}[type(value)])
    return types | ({"integer"} if "number" in types else set())


def wrong_values(alternatives):
    """What no alternative takes: of other types, below and above the bounds, and what is nothing at all."""
    yield Raw(DEEP)
    yield Raw("1e400")
    types = set().union(*map(types_of, alternatives))
    if any(not types_of(schema) for schema in alternatives):
        return  # anything goes
    for kind, values in OF_EACH_TYPE.items():
        if kind not in types:
            yield from values
    if len(alternatives) > 1:
        return
    (schema,) = alternatives
    if "integer" in types:
        yield Raw("9" * 400)
        for bound, beyond in (("minimum", -1), ("maximum", 1), ("exclusiveMinimum", 0), ("exclusiveMaximum", 0)):
            if bound in schema:
                yield schema[bound] + beyond
    if "enum" in schema:
        yield "none of these"
    if "maxLength" in schema:
        yield "x" * (schema["maxLength"] + 1)
    if "maxItems" in schema and schema["maxItems"] < 2000:
        yield [None] * (schema["maxItems"] + 1)


def fields_of(document, schema, depth=2, path=()):
    """(path, alternatives) of every member; of objects in arrays and in members, too."""
    for one in resolved(document, schema):
        for name, member in one.get("properties", {}).items():
            alternatives = resolved(document, member)
            yield (*path, name), alternatives
            if depth == 0:
                continue
            for inner in alternatives:
                if "properties" in inner:
                    yield from fields_of(document, inner, depth - 1, (*path, name))
                elif "items" in inner:
                    yield from fields_of(document, inner["items"], depth - 1, (*path, name, 0))


def put(body, path, value):
    """A copy of `body` with `value` there; None where the example has no place for it."""
    out = json.loads(json.dumps(body))
    at = out
    for step, following in zip(path, path[1:]):
        if isinstance(at, list):
            if not at or not isinstance(at[0], dict):
                return None
            at = at[0]
            continue
        if step not in at:
            at[step] = [] if following == 0 else {}
        at = at[step]
        if not isinstance(at, list if following == 0 else dict):
            return None
    if not isinstance(at, dict):
        return None
    at[path[-1]] = "\0raw" if isinstance(value, Raw) else value
    text = json.dumps(out)
    return text.replace('"\\u0000raw"', value) if isinstance(value, Raw) else text


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "requestBody" in operation:
                content = operation["requestBody"]["content"]["application/json"]
                yield method, path, content["schema"], content["example"]


def shape(body):
    """Which of the bodies of errors it is, without its texts."""
    error = json.loads(body)
    if isinstance(error["error"], str):
        return "native" if set(error) == {"error", "error_type"} else "ollama" if set(error) == {"error"} else "none"
    if error.get("type") == "error":
        return "anthropic" if set(error["error"]) == {"type", "message"} else "none"
    return "openai" if set(error["error"]) == {"message", "type", "param", "code"} else "none"


def test_every_field(server):
    connection = Connection(server.url)
    document = server.get("/api-doc/openapi.json").json()
    normal = json.dumps({"inputs": PROMPT, "parameters": {"max_new_tokens": 8}})
    expected = connection.post("/generate", normal)
    assert expected[0] == 200
    before = (server.shard_pid(), server.router_pid())
    accepted, n_sent = [], 0
    for _, path, schema, example in operations(document):
        path = path.replace("{model}", "tgi")
        family = ("anthropic" if path.startswith("/v1/messages") else "openai" if path.startswith("/v1/")
                  else "ollama" if path.startswith("/api/") else "native")
        for field, alternatives in fields_of(document, schema):
            for value in wrong_values(alternatives):
                text = put(example, field, value)
                if text is None:
                    continue
                n_sent += 1
                status, content_type, body = connection.post(path, text)
                if not 400 <= status < 500:
                    accepted.append((path, field, value[:40] if isinstance(value, str) else value, status, body[:200]))
                    continue
                assert content_type == "application/json" and len(body) <= 1024 and shape(body) == family, (path, field, body)
            null = put(example, field, None)
            status, _, body = connection.post(path, null) if null else (200, "", b"")
            assert status in (200, 400, 422), (path, field, body)
        assert connection.post("/generate", normal) == expected, path
    assert not accepted, "\n".join(map(str, accepted))
    assert n_sent > 5_000
    assert server.is_healthy() and (server.shard_pid(), server.router_pid()) == before
