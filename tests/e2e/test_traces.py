"""Traces of requests, as a collector of OpenTelemetry gets them."""

import json
import os
import pathlib
import queue
import subprocess
import threading

import pytest
import requests

from demo import PROMPT
from sse import Stream

HERE = pathlib.Path(__file__).resolve().parent


class Collector:
    def __init__(self):
        python = pathlib.Path(os.environ["COXSWAIN_E2E_VENVS"]) / "venv-otlp/bin/python"
        self.process = subprocess.Popen([python, "-B", HERE / "otlp_collector.py"], stdout=subprocess.PIPE, text=True)
        self.ports = json.loads(self.process.stdout.readline())
        self.spans = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.spans.put(json.loads(line))

    def take(self, n):
        return [self.spans.get(timeout=60) for _ in range(n)]


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.process.kill()
    collector.process.wait()


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_a_request_is_a_span_with_its_parts(launch, collector, protocol):
    over = protocol.split("/")[0]
    server = launch("--otlp-endpoint", f"http://127.0.0.1:{collector.ports[over]}", "--otlp-protocol", protocol,
                    "--otlp-service-name", "mine").wait_ready()
    body = {"inputs": PROMPT, "parameters": {"max_new_tokens": 20, "seed": 3, "do_sample": True}}
    trace, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    answer = server.post("/generate", body, headers={"traceparent": f"00-{trace}-{caller}-01", "x-request-id": "r7"})
    assert answer.status_code == 200
    spans = collector.take(5)
    parts, (whole,) = spans[:4], spans[4:]
    assert {s["over"] for s in spans} == {over} and {s["service"] for s in spans} == {"mine"}
    assert {s["trace"] for s in spans} == {trace} and whole["parent"] == caller
    assert whole["name"] == "POST /generate" and whole["kind"] == 2 and whole["status"] == 0
    attributes = whole["attributes"]
    assert attributes["request_id"] == "r7" and attributes["seed"] == "3"
    assert attributes["http.response.status_code"] == 200
    assert attributes["gen_ai.usage.output_tokens"] == int(answer.headers["x-generated-tokens"])
    assert attributes["gen_ai.usage.input_tokens"] == int(answer.headers["x-prompt-tokens"])
    assert [s["name"] for s in parts] == ["validate", "queued", "prefill", "decode"]
    assert {s["parent"] for s in parts} == {whole["id"]} and len({s["id"] for s in spans}) == 5
    times = [whole["begin"]] + [t for s in parts for t in (s["begin"], s["end"])] + [whole["end"]]
    assert times == sorted(times)

    # A caller that keeps no trace has none; a refusal, a stream and a trace of one's own.
    server.post("/generate", body, headers={"traceparent": f"00-{trace}-{caller}-00"})
    refused = server.post("/generate", {"inputs": PROMPT, "parameters": {"top_k": 0}})
    (failed,) = collector.take(1)
    assert failed["status"] == 2 and failed["message"] == refused.json()["error"] and failed["parent"] == ""
    assert failed["attributes"]["http.response.status_code"] == 422 and failed["attributes"]["error.type"] == "validation"
    with Stream(server.url, "/v1/completions", {"prompt": PROMPT, "max_tokens": 5, "stream": True}) as stream:
        list(stream.events())
    assert server.stop() == 0  # what is left is sent
    streamed = collector.take(5)
    assert streamed[4]["name"] == "POST /v1/completions" and streamed[4]["trace"] not in (trace, failed["trace"])


def test_without_a_collector_requests_are_served(launch):
    server = launch("--otlp-endpoint", "http://127.0.0.1:1").wait_ready()
    assert server.post("/generate", {"inputs": PROMPT}).status_code == 200
    assert requests.get(server.url + "/health", timeout=10).status_code == 200
    assert server.stop() == 0
    assert "traces were not delivered" in server.log()


def test_what_is_no_endpoint_is_refused_at_the_start(launch):
    launcher = launch("--otlp-endpoint", "http://collector:4317/v1/traces")
    assert launcher.wait_exit() != 0
    assert "`otlp_endpoint` http://collector:4317/v1/traces: it has a path, which gRPC has no use for" in launcher.log()
