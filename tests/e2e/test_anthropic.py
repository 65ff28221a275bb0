"""The package anthropic, unchanged, against the real launcher: what it gets is what /v1/chat/completions says."""

import pytest

from demo import MESSAGES


@pytest.fixture(scope="module")
def chat(server):
    """chat(FIELD=...): content, reason and counts of the same request to /v1/chat/completions."""

    def ask(**more):
        body = server.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 20, "temperature": 0, **more}).json()
        choice = body["choices"][0]
        return {"text": choice["message"]["content"], "n_input": body["usage"]["prompt_tokens"], "n_output": body["usage"]["completion_tokens"]}

    return ask


@pytest.fixture(scope="module", name="got")
def run_anthropic(run_client):
    return run_client("anthropic")


def of_message(stop_reason="max_tokens", stop_sequence=None):
    return {"types": ["text"], "role": "assistant", "type": "message", "model": "claude", "stop_reason": stop_reason,
            "stop_sequence": stop_sequence, "has_ids": True}


def test_create(got, chat):
    assert got["create"] == {**chat(), **of_message()}
    assert got["create_with_blocks"] == got["create"]


def test_stop_sequence(got, chat):
    plain = chat(max_tokens=60, stop=".")
    assert got["create_stop"] == {**plain, **of_message("stop_sequence", ".")} and "." not in plain["text"]


def test_a_beginning_is_continued(got, chat):
    messages = [*MESSAGES, {"role": "assistant", "content": "Once there"}]
    assert got["create_behind_a_beginning"] == {**chat(messages=messages), **of_message()}


def test_system(got, chat):
    messages = [{"role": "system", "content": "You are brief."}, *MESSAGES]
    assert got["create_with_system"] == {**chat(messages=messages, max_tokens=4), **of_message()}


def test_streams(got):
    whole = got["create"]
    events = got["create_streamed"]
    kinds = events.pop("types")
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[2:-3]) <= {"ping", "content_block_delta"}
    assert events == {name: whole[name] for name in ("text", "stop_reason", "n_output")}
    assert got["stream"] == {"streamed": whole["text"], **whole}


def test_async(got):
    assert got["from_async"] == {"whole": got["create"], "streamed": got["create"]}


def test_count_tokens(got):
    assert got["count_tokens"] == got["create"]["n_input"]


def test_models(got, server):
    assert got["models"] == [server.get("/info").json()["model_id"]]


def test_errors_are_exceptions(got):
    invalid = {"class": "BadRequestError", "status": 400, "type": "invalid_request_error"}
    assert got["error_invalid"] == {**invalid, "message": "Input validation error: `max_tokens` must be >= 1. Given: 0"}
    assert got["error_of_stream"] == got["error_invalid"]
    assert got["error_image"] == {**invalid, "message": "Input validation error: `messages.0.content.1` must be of type `text` or `tool_result`: "
                                                        "`image` blocks are not supported"}
    assert got["error_tools"]["message"] == ("Input validation error: `tools.0.type` must be custom: this server runs no tools. "
                                             "Given: bash_20250124")


def test_tools(got):
    loop = got["tool_loop"]
    call = ["tool_use", "get_weather", {"city": "Oslo"}]
    assert (loop["blocks"], loop["stop_reason"]) == ([call], "tool_use")
    assert "Oslo" in loop["then"][0] and loop["then_stop_reason"] == "end_turn"
    assert got["tool_stream"] == {"blocks": [call], "stop_reason": "tool_use"}
