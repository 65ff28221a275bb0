"""Checks of our own for schemathesis (SCHEMATHESIS_HOOKS), beside those that it has."""

import functools
import json
import os

import jsonschema
import requests
import schemathesis

STREAMS = {"text/event-stream": "data: ", "application/x-ndjson": ""}
DONE = "[DONE]"


@functools.cache
def document():
    return requests.get(os.environ["COXSWAIN_E2E_OPENAPI"], timeout=60).json()


@functools.cache
def validator(path, method, media_type):
    operation = document()["paths"][path][method.lower()]
    schema = operation["responses"]["200"]["content"][media_type]["schema"]
    if media_type == "text/event-stream":
        data = schema["properties"]["data"]
        schema = data.get("anyOf", [data])[0]["contentSchema"]
    return jsonschema.Draft202012Validator({**schema, "components": document()["components"]})


@schemathesis.check
def stream_conformance(_context, response, case):
    """Each event of a stream is what the description says of one."""
    media_type = (response.headers.get("content-type") or [""])[0].split(";")[0]
    if media_type not in STREAMS:
        return
    prefix = STREAMS[media_type]
    judge = validator(case.operation.path, case.operation.method, media_type)
    n_events = 0
    for line in response.content.decode("utf-8").split("\n"):
        if not line.strip() or not line.startswith(prefix) or line[len(prefix):] == DONE:
            continue
        n_events += 1
        for error in judge.iter_errors(json.loads(line[len(prefix):])):
            raise AssertionError(f"an event is not as described: {error.message}\n{line}")
    assert n_events > 0, "a stream without an event"


@schemathesis.check
def no_server_error(_context, response, case):
    """504 is the answer that `timeout_ms` asks for."""
    body = case.body if isinstance(case.body, dict) else {}
    parameters = body.get("parameters")
    asked = "timeout_ms" in body or (isinstance(parameters, dict) and "timeout_ms" in parameters)
    assert response.status_code < 500 or (response.status_code == 504 and asked), response.content
