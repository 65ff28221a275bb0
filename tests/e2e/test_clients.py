"""The official Python clients, unchanged, each in its own environment, against the real launcher.

Each clients/*_client.py makes its calls once and prints what it got; the tests compare that with plain HTTP.
"""

import json

import pytest

from demo import CONTEXT, MESSAGES, PROMPT, counts


@pytest.fixture(scope="module")
def plain(server):
    """What /generate says to the prompt of the client scripts."""
    body = server.post("/generate", {"inputs": PROMPT, "parameters": {"max_new_tokens": 12, "details": True}}).json()
    return {"text": body["generated_text"], "tokens": body["details"]["tokens"]}


@pytest.fixture(scope="module")
def plain_chat(server):
    return server.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 20, "temperature": 0}).json()


@pytest.fixture(scope="module")
def chat_content(plain_chat):
    return plain_chat["choices"][0]["message"]["content"]


@pytest.fixture(scope="module", name="from_text_generation")
def run_text_generation(run_client):
    return run_client("text-generation")


class TestTextGeneration:
    def test_generate(self, from_text_generation, plain):
        assert from_text_generation["generate"] == {
            "text": plain["text"], "finish_reason": "length", "n": 12, "seed": None, "tokens": plain["tokens"]}

    def test_details(self, from_text_generation, plain):
        prefill = from_text_generation["generate_with_details"]["prefill"]
        assert "".join(text for _, text, _ in prefill) == PROMPT
        assert prefill[0][2] is None and all(p[2] < 0 for p in prefill[1:])
        steps = from_text_generation["generate_with_details"]["top_tokens"]
        assert [len(step) for step in steps] == [3] * 4
        assert [step[0] for step in steps] == plain["tokens"][:4]  # greedy takes the most likely

    def test_sampling_repeats_with_a_seed(self, from_text_generation):
        sampled = from_text_generation["generate_sampled"]
        assert sampled["first"] == sampled["again"] and sampled["seed"] == 7

    def test_best_of(self, from_text_generation):
        assert from_text_generation["generate_best_of"] == {"n_others": 1}

    def test_stop_text_stays_on_native_routes(self, from_text_generation):
        stopped = from_text_generation["generate_stop"]
        assert stopped["finish_reason"] == "stop_sequence" and stopped["text"].endswith(".") and stopped["text"].count(".") == 1

    def test_generate_stream(self, from_text_generation, plain):
        assert from_text_generation["generate_stream"] == {
            "tokens": plain["tokens"], "text": plain["text"], "finish_reason": "length", "n": 12,
            "texts_before_the_end": [None] * 11}

    def test_chat(self, from_text_generation, plain_chat, chat_content):
        answer = from_text_generation["chat"]
        assert answer.pop("id")
        assert answer == {"object": "chat.completion", "content": chat_content, "role": "assistant",
                          "finish_reason": plain_chat["choices"][0]["finish_reason"], "usage": plain_chat["usage"]["total_tokens"]}

    def test_chat_stream(self, from_text_generation, plain_chat, chat_content):
        assert from_text_generation["chat_stream"] == {"content": chat_content, "finish_reason": plain_chat["choices"][0]["finish_reason"]}

    def test_errors_are_exceptions(self, from_text_generation, server):
        n_prompt = len(server.post("/tokenize", {"inputs": "fox " * 5000}).json())
        text = (f"Input validation error: `inputs` tokens + `max_new_tokens` must be <= {CONTEXT}. "
                f"Given: {n_prompt} `inputs` tokens and 5000 `max_new_tokens`")
        assert from_text_generation["validation_error"] == text and from_text_generation["validation_error_of_stream"] == text


@pytest.fixture(scope="module", name="from_hub")
def run_hub(run_client):
    return run_client("huggingface-hub")


class TestHuggingfaceHub:
    def test_text_generation(self, from_hub, plain):
        assert from_hub["text_generation"] == PROMPT + plain["text"]  # POST / gives the whole text, as TGI does
        assert from_hub["text_generation_alone"] == plain["text"]

    def test_details(self, from_hub, plain):
        answer = from_hub["text_generation_details"]
        prefill = answer.pop("prefill")
        assert answer == {"text": plain["text"], "finish_reason": "length", "n": 12, "tokens": plain["tokens"]}
        assert "".join(text for _, text, _ in prefill) == PROMPT

    def test_stream(self, from_hub, plain):
        assert from_hub["text_generation_stream"] == [t["text"] for t in plain["tokens"]]

    def test_stream_details(self, from_hub, plain, server):
        n_prompt = len(server.post("/tokenize", {"inputs": PROMPT}).json())
        assert from_hub["text_generation_stream_details"] == {
            "tokens": plain["tokens"], "text": plain["text"], "finish_reason": "length", "input_length": n_prompt}

    def test_chat(self, from_hub, plain_chat, chat_content):
        answer = from_hub["chat_completion"]
        assert answer.pop("id")
        assert answer == {"content": chat_content, "role": "assistant", "finish_reason": plain_chat["choices"][0]["finish_reason"],
                          "total_tokens": plain_chat["usage"]["total_tokens"]}

    def test_chat_logprobs(self, from_hub):
        tokens = from_hub["chat_completion_logprobs"]
        assert len(tokens) == 3 and all(logprob <= 0 and n_top == 2 for _, logprob, n_top in tokens)

    def test_chat_stream(self, from_hub, plain_chat, chat_content):
        assert from_hub["chat_completion_stream"] == {
            "content": chat_content, "finish_reason": plain_chat["choices"][0]["finish_reason"], "roles": ["assistant"]}

    def test_a_function_is_called(self, from_hub):
        whole, streamed = from_hub["tool_call"], from_hub["tool_call_stream"]
        [[kind, name, arguments]] = whole["calls"]
        assert (kind, name, json.loads(arguments)) == ("function", "get_weather", {"city": "Oslo"})
        assert (whole["content"], whole["finish_reason"]) == (None, "tool_calls")
        assert streamed == {"names": [name], "arguments": arguments, "indexes": [0], "finish_reason": "tool_calls", "content": ""}

    def test_chat_by_openai_names(self, from_hub, chat_content):
        assert from_hub["chat_by_openai_names"] == chat_content

    def test_errors_are_exceptions(self, from_hub):
        assert from_hub["validation_error"] == "Input validation error: `max_new_tokens` must be strictly positive"
        assert from_hub["chat_error"] == 400


@pytest.fixture(scope="module", name="from_openai")
def run_openai(run_client):
    return run_client("openai")


class TestOpenAI:
    def test_models(self, from_openai, server):
        assert from_openai["models_list"] == [[server.get("/info").json()["model_id"], "model"]]

    def test_completion(self, from_openai, plain, server):
        n_prompt = len(server.post("/tokenize", {"inputs": PROMPT}).json())
        assert from_openai["completion"] == {
            "text": plain["text"], "finish_reason": "length",
            "usage": {"prompt_tokens": n_prompt, "completion_tokens": 12, "total_tokens": n_prompt + 12}}

    def test_completion_of_a_list(self, from_openai, server):
        plain = server.post("/v1/completions", {"prompt": [PROMPT, "The dog"], "max_tokens": 6, "temperature": 0}).json()
        assert from_openai["completion_list"] == {
            "texts": [c["text"] for c in plain["choices"]], "indexes": [0, 1], "usage": counts(plain["usage"])}

    def test_completion_stream(self, from_openai):
        assert from_openai["completion_stream"] == {**from_openai["completion"], "choices_of_last": 0}

    def test_completion_with_the_prompt_and_logprobs(self, from_openai, server):
        answer = from_openai["completion_echo_logprobs"]
        n_prompt = len(server.post("/tokenize", {"inputs": PROMPT}).json())
        assert answer["text"].startswith(PROMPT)
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            assert len(answer[name]) == n_prompt + 1, name
        assert answer["token_logprobs"][-1] == max(answer["top_logprobs"][-1].values())  # the greedy one

    def test_chat(self, from_openai, plain_chat, chat_content):
        answer = from_openai["chat"]
        assert answer.pop("id")
        assert answer == {"content": chat_content, "role": "assistant", "object": "chat.completion", "model": plain_chat["model"],
                          "finish_reason": plain_chat["choices"][0]["finish_reason"], "usage": counts(plain_chat["usage"])}

    def test_chat_stream(self, from_openai, plain_chat, chat_content):
        answer = from_openai["chat_stream"]
        assert answer["content"] == chat_content
        assert answer["finish_reason"] == plain_chat["choices"][0]["finish_reason"]
        assert set(answer["usages"]) == {None} and len(answer["ids"]) == 1

    def test_chat_stream_with_usage(self, from_openai, plain_chat):
        answer = from_openai["chat_stream_usage"]
        assert answer["usage"] == counts(plain_chat["usage"]) and answer["choices_of_last"] == 0
        assert set(answer["usages_before"]) == {None}

    def test_chat_logprobs(self, from_openai):
        assert len(from_openai["chat_logprobs"]) == 3
        for _, logprob, top in from_openai["chat_logprobs"]:
            assert len(top) == 2 and top[0] == logprob >= top[1]

    def test_every_answer_fits_the_types_of_the_client(self, from_openai):
        assert from_openai["misfits"] == []

    def test_several_choices(self, from_openai):
        assert from_openai["chat_several"] == [0, 1]

    def test_stop_text_is_cut(self, from_openai):
        assert from_openai["chat_stop"]["finish_reason"] == "stop" and "." not in from_openai["chat_stop"]["content"]

    def test_a_history_with_function_calls(self, from_openai):
        assert from_openai["chat_after_a_function_call"]["finish_reason"] in ("length", "stop")
        assert from_openai["chat_after_a_function_call"]["tops"]

    def test_a_function_is_called_and_its_result_told(self, from_openai):
        loop = from_openai["tool_loop"]
        [[kind, name, arguments]] = loop["calls"]
        assert (kind, name, json.loads(arguments)) == ("function", "get_weather", {"city": "Oslo"})
        assert (loop["content"], loop["finish_reason"]) == (None, "tool_calls")
        text, finish_reason, calls = loop["then"]
        assert "Oslo" in text and (finish_reason, calls) == ("stop", [])

    def test_a_call_streams_as_it_is(self, from_openai):
        streamed, whole = from_openai["tool_stream"], from_openai["tool_loop"]
        assert streamed["argument_events"] > 1
        assert {name: streamed[name] for name in ("calls", "content", "finish_reason")} == {
            "calls": whole["calls"], "content": None, "finish_reason": "tool_calls"}

    def test_tool_choice(self, from_openai):
        choices = from_openai["tool_choices"]
        assert choices["auto"]["names"] == [] and choices["auto"]["has_content"]  # "Hello!" needs no function
        assert choices["none"] == choices["auto"]
        assert choices["required"]["names"][0] in ("get_weather", "set_timer") and not choices["required"]["has_content"]
        assert choices["named"] == {"names": ["set_timer"], "arguments": [["minutes"]], "has_content": False}

    def test_errors_are_exceptions_of_their_class(self, from_openai):
        refused = {"class": "BadRequestError", "status": 400, "type": "invalid_request_error", "code": "invalid_value"}
        zero = {**refused, "param": "max_tokens", "message": "Input validation error: `max_tokens` must be >= 1. Given: 0"}
        assert from_openai["error_invalid"] == zero
        assert from_openai["error_of_stream"] == zero
        assert from_openai["error_unsupported_field"] == {
            **refused, "code": "unsupported_parameter", "param": "prediction",
            "message": "Input validation error: `prediction` is not supported yet. Given: an object"}
        assert from_openai["error_of_tools"] == {**refused, "code": "tool_error", "param": "tool_choice", "message": "Tool error: Tool with name none not found"}
        too_long = from_openai["error_too_long"]
        assert (too_long["class"], too_long["status"], too_long["code"]) == ("BadRequestError", 400, "context_length_exceeded")
        assert too_long["message"].startswith("This model's maximum context length is ")
        assert "(context_length_exceeded: `inputs` must have less than " in too_long["message"]
        assert from_openai["error_not_found"]["class"] == "NotFoundError" and from_openai["error_not_found"]["code"] == "unknown_url"


@pytest.fixture(scope="module", name="from_litellm")
def run_litellm(run_client):
    return run_client("litellm")


class TestLiteLLM:
    def test_chat(self, from_litellm, plain_chat, chat_content):
        assert from_litellm["chat"] == {"content": chat_content, "total_tokens": plain_chat["usage"]["total_tokens"]}

    def test_an_overflow_has_its_class(self, from_litellm):
        overflow = {"class": "ContextWindowExceededError", "status": 400}
        assert from_litellm["error_too_long"] == overflow and from_litellm["error_no_room"] == overflow
        assert from_litellm["error_invalid"] == {"class": "BadRequestError", "status": 400}


@pytest.fixture(scope="module", name="from_langchain")
def run_langchain(run_client):
    return run_client("langchain")


class TestLangChain:
    def test_chat(self, from_langchain, plain_chat, chat_content):
        assert from_langchain["chat"] == {"content": chat_content, "total_tokens": plain_chat["usage"]["total_tokens"]}
        assert from_langchain["chat_stream"] == chat_content

    def test_an_overflow_has_its_class(self, from_langchain):
        overflow = {"overflow": from_langchain["knows_overflow"], "status": 400}
        assert [from_langchain[case] for case in ("error_too_long", "error_of_stream", "error_no_room")] == [overflow] * 3
        assert from_langchain["error_invalid"] == {"overflow": False, "status": 400}
