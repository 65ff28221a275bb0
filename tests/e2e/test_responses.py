"""/v1/responses and the cancelling of requests: the package openai, unchanged, gets what /v1/chat/completions says."""

import json
import threading
import time

import pytest
import requests

from demo import CONTEXT, MESSAGES


@pytest.fixture(scope="module")
def chat(server):
    """chat(FIELD=...): text and counts of the same request to /v1/chat/completions."""

    def ask(**more):
        body = server.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 20, "temperature": 0, **more}).json()
        return {"text": body["choices"][0]["message"]["content"], "types": ["message"], "status": "incomplete", "reason": "max_output_tokens",
                "model": server.get("/info").json()["model_id"], "usage": [body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]]}

    return ask


@pytest.fixture(scope="module", name="got")
def run_openai(run_client):
    return run_client("openai", "openai_responses")


def test_create(got, chat):
    assert got["create"] == got["create_with_items"] == chat()
    assert got["create_with_instructions"] == chat(messages=[{"role": "system", "content": "You are brief."}, *MESSAGES])
    assert got["misfits"] == []  # every answer fits the types of the client


def test_streams(got):
    whole = got["create"]
    assert got["create_stream"] == {
        "types": ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
                  "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.incomplete"],
        "text": whole["text"], "last": whole}
    assert got["stream"] == whole["text"]
    assert got["from_async"] == [whole, whole]


def test_logprobs(got):
    assert got["logprobs"] == {"is_text": True, "tops": [2]}


def test_responses_are_kept(got):
    assert got["kept"] == {"again": True, "goes_on": True, "gone": ["NotFoundError", 404, "response_not_found", "response_id"],
                           "gone_for_others": ["BadRequestError", 400, "previous_response_not_found", "previous_response_id"]}


def test_input_items(got):
    assert got["input_items"] == {"all": True, "newest_first": True, "of_first": True,
                                  "wrong": ["BadRequestError", 400, "invalid_value", "limit"],
                                  "unknown": ["NotFoundError", 404, "response_not_found", "response_id"]}


def test_a_running_response_is_cancelled(got):
    unknown = ["NotFoundError", 404, "response_not_found", "response_id"]
    assert got["cancel"] == {"status": "cancelled", "same": True, "last": ["response.failed", "failed"],
                             "ended": ["BadRequestError", 400, "invalid_value", "response_id"], "unknown": unknown, "not_kept": unknown}


def test_each_key_has_its_own(launch, tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(json.dumps([{"name": "a", "key": "ka"}, {"name": "b", "key": "kb"}]))
    launcher = launch("--api-keys-path", path).wait_ready()

    def ask(method, where, key, **body):
        return requests.request(method, launcher.url + where, json=body or None, headers={"x-api-key": key}, timeout=60)

    kept = ask("POST", "/v1/responses", "ka", input=MESSAGES[0]["content"], max_output_tokens=4).json()["id"]
    for method, where in (("GET", ""), ("GET", "/input_items"), ("POST", "/cancel"), ("DELETE", "")):
        assert ask(method, f"/v1/responses/{kept}{where}", "kb").json()["error"]["code"] == "response_not_found"
    goes_on = {"input": "And then?", "previous_response_id": kept, "max_output_tokens": 4}
    refused = ask("POST", "/v1/responses", "kb", **goes_on)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "previous_response_not_found")
    assert ask("POST", "/v1/responses", "ka", **goes_on).status_code == 200
    assert ask("GET", f"/v1/responses/{kept}", "ka").json()["id"] == kept
    assert ask("DELETE", f"/v1/responses/{kept}", "ka").json()["deleted"] is True
    assert ask("GET", f"/v1/responses/{kept}", "ka").status_code == 404
    assert launcher.stop() == 0


def test_forms(got):
    assert got["parse"] is True


def test_tools(got):
    call = ["get_weather", {"city": "Oslo"}]
    loop = got["tool_loop"]
    assert (loop["calls"], loop["text"], loop["same"]) == ([call], "", True) and "Oslo" in loop["then"]
    assert got["tool_stream"] == {"calls": [call], "joined": call[1], "several": True}
    choices = got["tool_choices"]
    assert choices["auto"] == choices["none"] == [] and choices["named"] == ["set_timer"] and len(choices["required"]) == 1


def test_errors_are_exceptions(got):
    refused = ["BadRequestError", 400]
    assert got["errors"] == {
        "invalid": [*refused, "invalid_value", "max_output_tokens"], "of_stream": [*refused, "invalid_value", "max_output_tokens"],
        "background": [*refused, "unsupported_parameter", "background"], "built_in": [*refused, "unsupported_parameter", "tools.0.type"],
        "too_long": [*refused, "context_length_exceeded", "input"]}


def test_a_running_request_is_cancelled(server):
    """By the id that its client chose, while it streams, and by that of its answer."""
    def ask(number, cancel):
        body = {"prompt": ["x"] * 4, "n": 4, "stream": True, "max_tokens": CONTEXT - 8, "ignore_eos": True}
        with requests.post(server.url + "/v1/completions", json=body, headers={"x-request-id": f"c-{number}"}, stream=True, timeout=60) as answer:
            lines = answer.iter_lines()
            first = next(lines)
            assert answer.headers["x-request-id"] == f"c-{number}"
            done = requests.delete(f"{server.url}/v1/requests/{cancel(first)}", timeout=60)
            return done.status_code, [line for line in lines if line][-2:]

    def by_answer(line):
        return requests.models.complexjson.loads(line.removeprefix(b"data: "))["id"]

    for number, cancel in enumerate((lambda _: "c-0", by_answer)):
        status, last = ask(number, cancel)
        assert status == 200
        assert b'"message":"the request was cancelled"' in last[0] and b'"code":"bad_request"' in last[0] and last[1] == b"data: [DONE]"
    assert requests.delete(server.url + "/v1/requests/c-0", timeout=60).status_code == 404


def test_a_whole_answer_is_cancelled(server):
    got = []

    def ask():
        body = {"prompt": ["x"] * 4, "n": 4, "max_tokens": CONTEXT - 8, "ignore_eos": True}
        got.append(requests.post(server.url + "/v1/completions", json=body, headers={"x-request-id": "whole"}, timeout=60))

    asking = threading.Thread(target=ask)
    asking.start()
    while requests.delete(server.url + "/v1/requests/whole", timeout=60).status_code != 200:
        assert asking.is_alive()
        time.sleep(0.001)
    asking.join()
    assert got[0].status_code == 400 and got[0].json()["error"]["code"] == "bad_request"
