"""The packages ollama and langchain-ollama, unchanged, against the real launcher: what they get is what /v1/chat/completions says."""

import pytest
import requests

from demo import CONTEXT, MESSAGES, PROMPT


@pytest.fixture(scope="module")
def chat(server):
    """chat(FIELD=...): text, reason and counts of the same request to /v1/chat/completions."""

    def ask(**more):
        body = server.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 20, "temperature": 0, **more}).json()
        choice = body["choices"][0]
        return {"text": choice["message"]["content"], "model": "demo", "done_reason": choice["finish_reason"],
                "n_prompt": body["usage"]["prompt_tokens"], "n": body["usage"]["completion_tokens"]}

    return ask


@pytest.fixture(scope="module", name="got")
def run_ollama(run_client):
    return run_client("ollama")


def test_chat(got, chat):
    whole = chat()
    assert got["chat"] == whole
    assert got["chat_stream"] == {**whole, "several": True}
    assert got["chat_async"] == [whole, whole]
    assert got["chat_stop"] == chat(max_tokens=60, stop=".")
    assert got["chat_seeded"] is True


def test_formats(got):
    assert got["chat_format"]["name"] and isinstance(got["chat_format"]["age"], int)
    assert got["chat_json"] == "dict"


def test_logprobs(got, chat):
    assert "".join(got["chat_logprobs"]["texts"]) == chat()["text"]
    assert set(got["chat_logprobs"]["tops"]) == {2} and got["chat_logprobs"]["best"]


def test_tools(got):
    call = ["get_weather", {"city": "Oslo"}]
    loop = got["tool_loop"]
    assert (loop["calls"], loop["content"]) == ([call], "")
    assert "Oslo" in loop["then"] and (loop["then_calls"], loop["done_reason"]) == ([], "stop")
    assert got["tool_stream"] == {"calls": [call], "content": ""}


def test_generate(got, chat, server):
    assert got["generate"] == got["generate_stream"] == chat()
    plain = server.post("/generate", {"inputs": PROMPT, "parameters": {"max_new_tokens": 12}}).json()
    assert got["generate_raw"] == plain["generated_text"]
    assert got["generate_nothing"] == ["", "unload", "load"]


def test_models(got, server):
    name = server.get("/info").json()["model_id"]
    assert got["models"] == {"listed": [name], "running": [[name, CONTEXT]], "capabilities": ["completion", "tools"], "context": CONTEXT}


def test_errors_are_exceptions(got):
    invalid = "Input validation error: `options.temperature` must be >= 0.0. Given: -1"
    errors = got["errors"]
    assert errors["invalid"] == errors["of_stream"] == [400, invalid] and errors["image"][0] == 400
    assert "`images` is not supported yet" in errors["image"][1] and errors["pull"] == 404


def test_langchain(got, chat):
    whole = chat()
    assert got["langchain"] == {"text": whole["text"], "n": whole["n"], "streamed": whole["text"],
                                "calls": [["get_weather", {"city": "Oslo"}]], "person": True}


def test_head_says_that_somebody_is_there(server):
    answer = requests.head(server.url + "/", timeout=60)
    assert (answer.status_code, answer.content) == (200, b"")
