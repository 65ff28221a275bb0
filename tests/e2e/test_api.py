"""Bodies, headers and framing of the HTTP API over the real processes."""

import json
import re
import threading

import pytest
import requests

from demo import CONFIG, CONTEXT, MESSAGES, PROMPT, counts
from launcher import Launcher
from process_tree import wait_until
from sse import Stream


def ordered(text):
    """JSON with objects as lists of pairs, so that comparing keeps key order."""
    return json.loads(text, object_pairs_hook=lambda pairs: pairs)


def keys(pairs):
    return [name for name, _ in pairs]


def generate(server, parameters, inputs=PROMPT):
    response = server.post("/generate", {"inputs": inputs, "parameters": parameters})
    assert response.status_code == 200, response.text
    return response.json()


class TestGenerate:
    def test_text_only(self, server):
        response = server.post("/generate", {"inputs": PROMPT, "parameters": {"max_new_tokens": 8}})
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/json"
        assert keys(ordered(response.text)) == ["generated_text"]
        assert response.json()["generated_text"]

    def test_details(self, server):
        response = server.post("/generate", {"inputs": PROMPT, "parameters": {"max_new_tokens": 8, "details": True}})
        pairs = ordered(response.text)
        assert keys(pairs) == ["generated_text", "details"]
        assert keys(pairs[1][1]) == ["finish_reason", "generated_tokens", "seed", "prefill", "tokens"]
        body = response.json()
        details = body["details"]
        assert (details["finish_reason"], details["generated_tokens"], details["seed"], details["prefill"]) == ("length", 8, None, [])
        assert len(details["tokens"]) == 8
        for token in details["tokens"]:
            assert list(token) == ["id", "text", "logprob", "special"]
            assert isinstance(token["id"], int) and token["logprob"] <= 0 and token["special"] is False
        assert "".join(t["text"] for t in details["tokens"]) == body["generated_text"]

    def test_headers(self, server):
        inputs = "Ünder the tree"  # characters are counted, not bytes
        response = server.post("/generate", {"inputs": inputs, "parameters": {"max_new_tokens": 5}})
        n_prompt = len(server.post("/tokenize", {"inputs": inputs}).json())
        headers = response.headers
        assert headers["x-compute-type"]
        assert headers["x-compute-characters"] == "14"
        assert headers["x-prompt-tokens"] == str(n_prompt)
        assert headers["x-generated-tokens"] == "5"
        assert re.fullmatch(r"\d+(\.\d+)?(e-\d+)?", headers["x-compute-time"])
        for name in ("x-total-time", "x-validation-time", "x-queue-time", "x-inference-time", "x-time-per-token"):
            assert re.fullmatch(r"\d+", headers[name]), name
        assert int(headers["x-total-time"]) >= int(headers["x-inference-time"])

    def test_prompt_logprobs(self, server):
        ids = [t["id"] for t in server.post("/tokenize", {"inputs": PROMPT}).json()]
        details = generate(server, {"max_new_tokens": 2, "decoder_input_details": True})["details"]
        assert [p["id"] for p in details["prefill"]] == ids
        assert [list(p) for p in details["prefill"]] == [["id", "text", "logprob"]] * len(ids)
        assert details["prefill"][0]["logprob"] is None
        assert all(p["logprob"] < 0 for p in details["prefill"][1:])

    def test_top_tokens(self, server):
        details = generate(server, {"max_new_tokens": 4, "details": True, "top_n_tokens": 5})["details"]
        assert list(details)[-1] == "top_tokens"
        for token, top in zip(details["tokens"], details["top_tokens"], strict=True):
            assert len(top) == 5 and top[0] == token
            assert [t["logprob"] for t in top] == sorted((t["logprob"] for t in top), reverse=True)

    def test_stop_text_stays(self, server):
        body = generate(server, {"max_new_tokens": 100, "details": True, "stop": ["."]})
        assert body["details"]["finish_reason"] == "stop_sequence"
        assert body["generated_text"].endswith(".") and body["generated_text"].count(".") == 1

    def test_end_of_text(self, server):
        details = generate(server, {"details": True, "max_new_tokens": 1000})["details"]
        assert details["finish_reason"] == "eos_token"
        last = details["tokens"][-1]
        assert last["id"] == CONFIG["eos_token_id"] and last["special"] is True
        assert not any(t["special"] for t in details["tokens"][:-1])

    def test_return_full_text(self, server):
        without = generate(server, {"max_new_tokens": 8})["generated_text"]
        assert generate(server, {"max_new_tokens": 8, "return_full_text": True})["generated_text"] == PROMPT + without

    def test_truncate_keeps_the_end(self, server):
        tokens = server.post("/tokenize", {"inputs": "The fox had a red boat."}).json()
        text = "".join(t["text"] for t in tokens[-3:])
        cut = generate(server, {"max_new_tokens": 8, "truncate": 3, "decoder_input_details": True}, "The fox had a red boat.")
        assert [p["id"] for p in cut["details"]["prefill"]] == [t["id"] for t in tokens[-3:]]
        assert "".join(p["text"] for p in cut["details"]["prefill"]) == text

    def test_best_of(self, server):
        details = generate(server, {"best_of": 2, "do_sample": True, "max_new_tokens": 8, "details": True})["details"]
        others = details["best_of_sequences"]
        assert len(others) == 1

        def mean(sequence):
            return sum(t["logprob"] for t in sequence["tokens"]) / len(sequence["tokens"])

        assert mean(details) >= mean(others[0])
        assert details["seed"] != others[0]["seed"]

    def test_no_parameters_samples(self, server):
        answers = {server.post("/generate", {"inputs": PROMPT}).json()["generated_text"] for _ in range(6)}
        assert len(answers) > 1

    def test_null_is_absent(self, server):
        nulls = {name: None for name in ("best_of", "temperature", "top_k", "top_p", "typical_p", "do_sample", "stop", "seed",
                                         "repetition_penalty", "frequency_penalty", "truncate", "watermark", "details", "grammar",
                                         "decoder_input_details", "top_n_tokens", "return_full_text", "adapter_id")}
        assert generate(server, {"max_new_tokens": 8, **nulls}) == generate(server, {"max_new_tokens": 8})

    def test_unknown_fields_are_listed(self, server):
        response = server.post("/generate", {"inputs": PROMPT, "colour": 1, "parameters": {"max_new_tokens": 1, "shape": "x"}})
        assert response.status_code == 200 and response.headers["x-ignored-fields"] == "colour,shape"

    def test_compatible_root(self, server):
        text = generate(server, {"max_new_tokens": 8})["generated_text"]
        body = {"inputs": PROMPT, "parameters": {"max_new_tokens": 8, "return_full_text": False}}
        assert server.post("/", body).json() == [{"generated_text": text}]
        del body["parameters"]["return_full_text"]
        assert server.post("/", body).json() == [{"generated_text": PROMPT + text}]


class TestGenerateStream:
    @pytest.mark.parametrize("path", ["/generate_stream", "/"])
    def test_same_tokens_as_the_whole_answer(self, server, path):
        whole = generate(server, {"max_new_tokens": 12, "details": True, "top_n_tokens": 2, "return_full_text": False})
        body = {"inputs": PROMPT, "stream": True,
                "parameters": {"max_new_tokens": 12, "details": True, "top_n_tokens": 2, "return_full_text": False}}
        with Stream(server.url, path, body) as stream:
            events = list(stream.events())
        assert [e["index"] for e in events] == list(range(1, 13))
        assert [e["token"] for e in events] == whole["details"]["tokens"]
        assert [e["top_tokens"] for e in events] == whole["details"]["top_tokens"]
        assert [e["generated_text"] for e in events[:-1]] == [None] * 11
        assert events[-1]["generated_text"] == whole["generated_text"]
        n_prompt = len(server.post("/tokenize", {"inputs": PROMPT}).json())
        assert [e["details"] for e in events[:-1]] == [None] * 11
        assert events[-1]["details"] == {"finish_reason": "length", "generated_tokens": 12, "seed": None, "input_length": n_prompt}

    def test_bytes(self, server):
        with Stream(server.url, "/generate_stream", {"inputs": PROMPT, "parameters": {"max_new_tokens": 3}}) as stream:
            chunks = list(stream.chunks())
            rest = stream.headers
        assert stream.status == 200
        assert rest["content-type"] == "text/event-stream"
        assert rest["cache-control"] == "no-cache"
        assert rest["x-accel-buffering"] == "no"
        assert rest["x-compute-characters"] == str(len(PROMPT))
        assert "x-compute-type" in rest and "x-total-time" not in rest and "content-length" not in rest
        assert len(chunks) == 3  # one event is one chunk, and no [DONE] here
        for i, chunk in enumerate(chunks, 1):
            assert chunk.startswith(b'data: {"index":%d,"token":{"id":' % i) and chunk.endswith(b"}\n\n")
            assert list(json.loads(chunk[6:])) == ["index", "token", "generated_text", "details"]
        assert chunks[0].endswith(b',"generated_text":null,"details":null}\n\n')
        assert chunks[2].endswith(b'","details":null}\n\n')

    def test_errors_have_their_status(self, server):
        response = server.post("/generate_stream", {"inputs": PROMPT, "parameters": {"best_of": 2, "do_sample": True}})
        assert response.status_code == 422 and response.headers["content-type"] == "application/json"
        assert response.json() == {"error": "Input validation error: `best_of` != 1 is not supported when streaming tokens",
                                   "error_type": "validation"}


class TestChat:
    BODY = {"model": "tgi", "messages": MESSAGES, "max_tokens": 20, "temperature": 0}

    def test_whole(self, server):
        response = server.post("/v1/chat/completions", self.BODY)
        assert response.status_code == 200 and response.headers["content-type"] == "application/json"
        pairs = ordered(response.text)
        assert keys(pairs) == ["object", "id", "created", "model", "system_fingerprint", "choices", "usage"]
        assert keys(dict(pairs)["choices"][0]) == ["index", "message", "logprobs", "finish_reason"]
        body = response.json()
        assert body["object"] == "chat.completion" and body["id"] and body["created"] > 1_600_000_000
        assert body["model"] == server.get("/info").json()["model_id"]
        assert isinstance(body["system_fingerprint"], str)
        choice = body["choices"][0]
        assert choice["message"]["role"] == "assistant" and choice["message"]["content"]
        assert choice["logprobs"] is None and choice["finish_reason"] in ("length", "stop")
        usage = body["usage"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        assert response.headers["x-prompt-tokens"] == str(usage["prompt_tokens"])
        assert response.headers["x-generated-tokens"] == str(usage["completion_tokens"])

    def test_stream(self, server):
        whole = server.post("/v1/chat/completions", self.BODY).json()
        with Stream(server.url, "/v1/chat/completions", {**self.BODY, "stream": True}) as stream:
            chunks = list(stream.chunks())
        assert stream.headers["content-type"] == "text/event-stream"
        assert chunks[-1] == b"data: [DONE]\n\n"
        events = [json.loads(c[6:]) for c in chunks[:-1]]
        assert len(events) == whole["usage"]["completion_tokens"]
        for event in events:
            assert list(event) == ["object", "id", "created", "model", "system_fingerprint", "choices", "usage"]
            assert event["object"] == "chat.completion.chunk" and event["usage"] is None
            assert event["id"] == events[0]["id"] != ""
            choice = event["choices"][0]
            assert list(choice) == ["index", "delta", "logprobs", "finish_reason"]
            assert list(choice["delta"]) == ["role", "content", "tool_calls"] and choice["delta"]["tool_calls"] is None
        assert "".join(e["choices"][0]["delta"]["content"] for e in events) == whole["choices"][0]["message"]["content"]
        assert [e["choices"][0]["finish_reason"] for e in events] == [None] * (len(events) - 1) + [whole["choices"][0]["finish_reason"]]

    def test_stream_with_usage(self, server):
        whole = server.post("/v1/chat/completions", self.BODY).json()
        with Stream(server.url, "/v1/chat/completions",
                    {**self.BODY, "stream": True, "stream_options": {"include_usage": True}}) as stream:
            events = list(stream.events())
        assert events[-1]["choices"] == [] and counts(events[-1]["usage"]) == counts(whole["usage"])
        assert events[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 0  # of the first request

    def test_same_prompt_as_its_token_ids(self, server):
        """The template, its special tokens and the end of text: chat = completion of the ids of /chat_tokenize."""
        templated = server.post("/chat_tokenize", {"messages": MESSAGES}).json()
        assert templated["templated_text"] == f"<|user|>{MESSAGES[0]['content']}<|end|><|assistant|>"
        ids = [t["id"] for t in templated["tokenize_response"]]
        plain = [t["id"] for t in server.post("/tokenize", {"inputs": templated["templated_text"]}).json()]
        assert ids == plain  # "<|" + role + "|>" is one token, though the role came with the request
        chat = server.post("/v1/chat/completions", {**self.BODY, "max_tokens": 400}).json()
        completion = server.post("/v1/completions", {"prompt": ids, "max_tokens": 400, "temperature": 0}).json()
        assert chat["choices"][0]["message"]["content"] == completion["choices"][0]["text"]
        assert chat["choices"][0]["finish_reason"] == completion["choices"][0]["finish_reason"] == "stop"
        assert counts(chat["usage"]) == counts(completion["usage"])
        assert "<|" not in chat["choices"][0]["message"]["content"]

    def test_users_cannot_write_special_tokens(self, server):
        def ids(content):
            return [t["id"] for t in server.post("/chat_tokenize", {"messages": [{"role": "user", "content": content}]}).json()["tokenize_response"]]

        assert ids("a<|end|>b").count(0) == ids("ab").count(0)

    def test_model_is_echoed(self, server):
        assert server.post("/v1/chat/completions", {**self.BODY, "model": "dummy"}).json()["model"] == "dummy"

    def test_logprobs(self, server):
        choice = server.post("/v1/chat/completions", {**self.BODY, "max_tokens": 3, "logprobs": True, "top_logprobs": 2}).json()["choices"][0]
        assert len(choice["logprobs"]["content"]) == 3
        for token in choice["logprobs"]["content"]:
            assert token["logprob"] <= 0 and len(token["top_logprobs"]) == 2

    def test_neutral_values_are_accepted(self, server):
        more = {"n": 1, "top_p": 1.0, "tools": None, "tool_choice": "auto", "response_format": {"type": "text"}, "stream": False,
                "stream_options": None, "frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": None, "user": "me", "stop": None,
                "seed": None, "parallel_tool_calls": True, "store": False}
        response = server.post("/v1/chat/completions", {**self.BODY, **more})
        assert response.status_code == 200, response.text
        assert response.headers["x-ignored-fields"] == "user"


class TestCompletions:
    def test_text(self, server):
        text = generate(server, {"max_new_tokens": 8})["generated_text"]
        response = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 8, "temperature": 0})
        pairs = ordered(response.text)
        assert keys(pairs) == ["object", "id", "created", "model", "system_fingerprint", "choices", "usage"]
        assert keys(dict(pairs)["choices"][0]) == ["index", "text", "logprobs", "finish_reason"]
        body = response.json()
        assert body["object"] == "text_completion" and body["id"]
        assert body["choices"] == [{"index": 0, "text": text, "logprobs": None, "finish_reason": "length"}]

    def test_list(self, server):
        prompts = [PROMPT, "The dog", "A cat and a boat", PROMPT]
        alone = [server.post("/v1/completions", {"prompt": p, "max_tokens": 6, "temperature": 0}).json() for p in prompts]
        body = server.post("/v1/completions", {"prompt": prompts, "max_tokens": 6, "temperature": 0}).json()
        assert [c["index"] for c in body["choices"]] == [0, 1, 2, 3]
        assert [c["text"] for c in body["choices"]] == [a["choices"][0]["text"] for a in alone]
        for name, value in counts(body["usage"]).items():
            assert value == sum(a["usage"][name] for a in alone), name

    def test_token_ids(self, server):
        ids = [t["id"] for t in server.post("/tokenize", {"inputs": PROMPT}).json()]
        by_text = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 8, "temperature": 0}).json()
        by_ids = server.post("/v1/completions", {"prompt": ids, "max_tokens": 8, "temperature": 0}).json()
        by_lists = server.post("/v1/completions", {"prompt": [ids, ids], "max_tokens": 8, "temperature": 0}).json()
        assert by_ids["choices"] == by_text["choices"] and counts(by_ids["usage"]) == counts(by_text["usage"])
        assert [c["text"] for c in by_lists["choices"]] == [by_text["choices"][0]["text"]] * 2

    def test_ignore_eos(self, server):
        body = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 700, "temperature": 0, "ignore_eos": True}).json()
        assert body["usage"]["completion_tokens"] == 700 and body["choices"][0]["finish_reason"] == "length"

    def test_stream(self, server):
        body = {"prompt": PROMPT, "max_tokens": 8, "temperature": 0}
        whole = server.post("/v1/completions", body).json()
        with Stream(server.url, "/v1/completions", {**body, "stream": True}) as stream:
            chunks = list(stream.chunks())
        assert chunks[-1] == b"data: [DONE]\n\n"
        events = [json.loads(c[6:]) for c in chunks[:-1]]
        assert "".join(e["choices"][0]["text"] for e in events) == whole["choices"][0]["text"]
        assert [e["choices"][0]["finish_reason"] for e in events] == [None] * 7 + ["length"]
        assert [list(e) for e in events[:-1]] == [["object", "id", "created", "choices", "model", "system_fingerprint"]] * 7
        assert "usage" not in events[-1]

    def test_log_probabilities_of_a_given_text(self, server):
        """What evaluation harnesses ask: how likely is this text, and was each token the best one?"""
        native = generate(server, {"max_new_tokens": 8, "details": True, "decoder_input_details": True})
        details = native["details"]
        ids = [t["id"] for t in details["prefill"] + details["tokens"]]
        body = {"prompt": [ids], "max_tokens": 1, "logprobs": 1, "echo": True, "seed": 1234}
        whole = server.post("/v1/completions", body).json()["choices"][0]
        listed = whole["logprobs"]
        assert {len(values) for values in listed.values()} == {len(ids) + 1}
        assert listed["token_logprobs"][0] is None and listed["top_logprobs"][0] is None
        n = len(details["prefill"])
        expected = [t["logprob"] for t in details["prefill"][1:] + details["tokens"]]
        assert all(abs(a - b) < 1e-4 for a, b in zip(listed["token_logprobs"][1:-1], expected, strict=True))
        # The second part was generated greedily: every token is the best one, with the very same number.
        for value, top in zip(listed["token_logprobs"][n:-1], listed["top_logprobs"][n:-1], strict=True):
            assert value == max(top.values()) and len(top) == 1
        assert whole["text"].startswith(PROMPT + native["generated_text"])
        for token, offset in list(zip(listed["tokens"], listed["text_offset"], strict=True))[1:-1]:
            assert whole["text"][offset:].startswith(token)

        alone = server.post("/v1/completions", {**body, "max_tokens": 0}).json()
        assert alone["usage"]["completion_tokens"] == 0
        assert alone["choices"][0]["text"] == PROMPT + native["generated_text"]
        assert alone["choices"][0]["logprobs"] == {name: values[:-1] for name, values in listed.items()}

        with Stream(server.url, "/v1/completions", {**body, "stream": True}) as stream:
            events = list(stream.events())
        parts = [e["choices"][0]["logprobs"] for e in events]
        assert {name: sum((p[name] for p in parts), []) for name in listed} == listed

    def test_several_prompts_in_one_stream(self, server):
        body = {"prompt": [PROMPT, "The dog"], "max_tokens": 6, "temperature": 0}
        whole = server.post("/v1/completions", body).json()
        with Stream(server.url, "/v1/completions", {**body, "stream": True}) as stream:
            events = list(stream.events())
        for choice in whole["choices"]:
            mine = [e["choices"][0] for e in events if e["choices"][0]["index"] == choice["index"]]
            assert "".join(c["text"] for c in mine) == choice["text"]
            assert mine[-1]["finish_reason"] == choice["finish_reason"]

    def test_stop_text_is_cut_and_held_back(self, server):
        body = {"prompt": PROMPT, "max_tokens": 100, "temperature": 0, "stop": "."}
        whole = server.post("/v1/completions", body).json()["choices"][0]
        assert whole["finish_reason"] == "stop" and "." not in whole["text"]
        with Stream(server.url, "/v1/completions", {**body, "stream": True}) as stream:
            assert "".join(e["choices"][0]["text"] for e in stream.events()) == whole["text"]


class TestWhenARequestRuns:
    def test_a_prefix_is_shared_under_one_salt(self, server):
        def hits():
            text = server.get("/metrics").text
            return float(re.search(r"^tgi_prefix_cache_hit_tokens_total(?:{[^}]*})? (\S+)$", text, re.MULTILINE)[1])

        def hits_of(**salt):
            before = hits()
            generate(server, {"max_new_tokens": 1, **salt}, inputs="a prompt with a beginning of its own " * 8)
            return hits() - before

        assert hits_of(cache_salt="one") == 0
        assert hits_of(cache_salt="one") > 16
        assert hits_of(cache_salt="two") == 0
        assert hits_of() == 0
        assert hits_of() > 16

    @pytest.mark.parametrize("timeout", [1, 50])
    def test_a_timeout_answers(self, server, timeout):
        response = server.post("/v1/completions", {
            "prompt": PROMPT, "max_tokens": 1900, "ignore_eos": True, "timeout_ms": timeout})
        assert response.status_code == 504, response.text
        assert response.json()["error_type"] == "deadline"

    def test_the_higher_priority_is_answered_first(self, launch):
        server = launch("--max-batch-size", 1).wait_ready()
        long_one = {"prompt": PROMPT, "max_tokens": 1000, "ignore_eos": True}
        answered = []

        def ask(priority):
            body = {"prompt": PROMPT, "max_tokens": 20, "ignore_eos": True, "priority": priority}
            assert server.post("/v1/completions", body).status_code == 200
            answered.append(priority)

        def is_waiting():
            page = server.get("/metrics").text
            return "\ntgi_queue_size 1" in page and '\ntgi_queue_size_by_priority{priority="low"} 1' in page

        with Stream(server.url, "/v1/completions", {**long_one, "stream": True}) as running:
            next(running.events())
            low = threading.Thread(target=ask, args=[-1])
            low.start()
            wait_until(is_waiting, 30, "a request of low priority in the queue")
            ask(1)
        low.join()
        assert answered == [1, -1]


class TestFinishOrder:
    """The last allowed token completes a stop string, or is the end token: native routes say `length`, those below /v1 `stop`."""

    @pytest.mark.parametrize("stop", [["."], []], ids=["stop string", "end token"])
    def test_the_last_allowed_token(self, server, stop):
        details = generate(server, {"details": True, "max_new_tokens": 1000, **({"stop": stop} if stop else {})})
        n = details["details"]["generated_tokens"]
        assert details["details"]["finish_reason"] == ("stop_sequence" if stop else "eos_token")
        cut = generate(server, {"details": True, "max_new_tokens": n, **({"stop": stop} if stop else {})})
        assert cut["details"]["finish_reason"] == "length" and cut["generated_text"] == details["generated_text"]
        body = {"prompt": PROMPT, "max_tokens": n, "temperature": 0, "stop": stop}
        whole = server.post("/v1/completions", body).json()
        text = details["generated_text"].removesuffix(".") if stop else details["generated_text"]
        assert (whole["choices"][0]["text"], whole["choices"][0]["finish_reason"], whole["usage"]["completion_tokens"]) == (text, "stop", n)
        with Stream(server.url, "/v1/completions", {**body, "stream": True}) as stream:
            choices = [e["choices"][0] for e in stream.events()]
        assert "".join(c["text"] for c in choices) == text and choices[-1]["finish_reason"] == "stop"
        short = server.post("/v1/completions", {**body, "max_tokens": n - 1}).json()["choices"][0]
        assert short["finish_reason"] == "length"


class TestOtherRoutes:
    def test_models(self, server):
        model = server.get("/info").json()["model_id"]
        response = server.get("/v1/models")
        assert response.status_code == 200
        assert ordered(response.text) == [
            ("object", "list"), ("data", [[("id", model), ("object", "model"), ("created", 0), ("owned_by", model), ("max_model_len", CONTEXT)]])]

    def test_info(self, server):
        response = server.get("/info")
        assert response.headers["content-type"] == "application/json"
        body = response.json()
        version = body.pop("version")
        assert re.fullmatch(r"\d+\.\d+.*", version)
        assert list(body.items()) == list({
            "model_id": server.command[server.command.index("--model-id") + 1], "model_sha": None, "model_pipeline_tag": None,
            "max_concurrent_requests": 128, "max_best_of": 2, "max_stop_sequences": 4, "max_input_tokens": CONTEXT - 1,
            "max_total_tokens": CONTEXT, "validation_workers": 2, "max_client_batch_size": 4, "router": "text-generation-router",
            "sha": None, "docker_label": None}.items())

    def test_detokenize(self, server):
        chat = server.post("/chat_tokenize", {"messages": MESSAGES}).json()
        ids = [token["id"] for token in chat["tokenize_response"]]
        assert server.post("/detokenize", {"tokens": ids}).json() == dict.fromkeys(["prompt", "content"], chat["templated_text"])
        text = server.post("/detokenize", {"tokens": ids, "skip_special_tokens": True}).json()["prompt"]
        assert MESSAGES[0]["content"] in text and len(text) < len(chat["templated_text"])

    @pytest.mark.parametrize("path", ["/health", "/health/live", "/health/ready", "/ping"])
    def test_health(self, server, path):
        response = server.get(path)
        assert response.status_code == 200 and response.content == b""

    def test_front_page(self, server):
        """What a browser shows: each route that it names is there."""
        response = server.get("/")
        assert response.status_code == 200 and response.headers["Content-Type"] == "text/plain; charset=utf-8"
        routes = re.findall(r"/\w[\w/]*", response.text)
        assert len(routes) == 15
        for route in routes:
            assert server.get(route).status_code in (200, 405), route

    def test_tokenize(self, server):
        text = "The fox <|end|>"  # plain text may not spell special tokens
        tokens = server.post("/tokenize", {"inputs": text}).json()
        assert [list(t) for t in tokens] == [["id", "text", "start", "stop"]] * len(tokens)
        assert "".join(t["text"] for t in tokens) == text
        assert [t["start"] for t in tokens] == [0] + [t["stop"] for t in tokens[:-1]]
        assert tokens[-1]["stop"] == len(text)

    def test_tokenize_counts_bytes(self, server):
        """A character of two bytes that are two tokens: both have the place of the whole character."""
        tokens = server.post("/tokenize", {"inputs": "f\u00f6x"}).json()
        assert {(t["start"], t["stop"]) for t in tokens} == {(0, 1), (1, 3), (3, 4)}

    def test_metrics(self, server):
        generate(server, {"max_new_tokens": 2})
        response = server.get("/metrics")
        assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
        names = {line.split()[2]: line.split()[3] for line in response.text.splitlines() if line.startswith("# TYPE")}
        expected = {
            "counter": ["tgi_request_count", "tgi_request_success", "tgi_request_failure", "tgi_batch_inference_count",
                        "tgi_batch_inference_success"],
            "gauge": ["tgi_queue_size", "tgi_batch_current_size", "tgi_batch_current_max_tokens", "tgi_batch_max_total_tokens"],
            "histogram": ["tgi_request_duration", "tgi_request_validation_duration", "tgi_request_queue_duration",
                          "tgi_request_inference_duration", "tgi_request_mean_time_per_token_duration", "tgi_request_input_length",
                          "tgi_request_max_new_tokens", "tgi_request_generated_tokens", "tgi_batch_next_size",
                          "tgi_batch_inference_duration", "tgi_batch_forward_duration"],
        }
        for kind, wanted in expected.items():
            for name in wanted:
                assert names.get(name) == kind, name
        assert 'tgi_request_duration_bucket{le="0.00015000000000000001"}' in response.text

    def test_unknown_path_and_method(self, server):
        response = server.get("/nothing")
        assert response.status_code == 404 and response.json()["error_type"] == "not_found"
        response = server.get("/v1/nothing")
        assert response.status_code == 404 and response.json()["error"]["code"] == "unknown_url"
        response = server.get("/generate")
        assert response.status_code == 405 and response.headers["allow"] == "POST"
        assert response.json()["error_type"] == "method_not_allowed"

    def test_cors(self, server):
        response = requests.options(server.url + "/generate", timeout=60, headers={
            "Origin": "http://example.org", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"})
        assert response.status_code in (200, 204)
        assert response.headers["access-control-allow-origin"] == "*"
        assert "authorization" in response.headers["access-control-allow-headers"].lower()
        assert "access-control-allow-credentials" not in response.headers


class TestTgisDialect:
    def test_refusals_and_ends(self, launch):
        own = launch("--v1-dialect", "tgi").wait_ready()
        refused = own.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 0})
        assert (refused.status_code, refused.json()) == (422, {
            "error": "Input validation error: `max_new_tokens` must be strictly positive", "error_type": "validation"})
        unknown = own.get("/v1/nothing")
        assert unknown.status_code == 404 and list(unknown.json()) == ["error", "error_type"]
        body = {"prompt": PROMPT, "max_tokens": 4, "temperature": 0}
        whole = own.post("/v1/completions", body).json()
        assert list(whole["usage"]) == ["prompt_tokens", "completion_tokens", "total_tokens"]
        with Stream(own.url, "/v1/completions", {**body, "stream": True}) as stream:
            events = list(stream.events())
        assert [e["choices"][0]["finish_reason"] for e in events] == [""] * 3 + ["length"]
        assert events[-1]["usage"] == whole["usage"]
        stopped = own.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 100, "temperature": 0, "stop": ["."]}).json()
        assert stopped["choices"][0]["finish_reason"] == "stop_sequence"


@pytest.fixture(scope="module")
def locked():
    """A server that wants a key."""
    launcher = Launcher(environment={"API_KEY": "a-Secret"}).start()
    try:
        yield launcher.wait_ready()
        assert launcher.stop() == 0, launcher.log()
    finally:
        launcher.dispose()


class TestApiKey:
    @pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Bearer a-secret", "a-Secret", "Basic a-Secret"])
    def test_refused(self, locked, authorization):
        headers = {"Authorization": authorization} if authorization else {}
        native = locked.post("/generate", {"inputs": PROMPT}, headers=headers)
        assert native.status_code == 401
        assert native.json() == {"error": "missing or wrong API key", "error_type": "unauthorized"}
        openai = locked.post("/v1/chat/completions", {"messages": MESSAGES}, headers=headers)
        assert openai.status_code == 401 and openai.json()["error"]["message"] == "missing or wrong API key"

    def test_accepted(self, locked):
        response = locked.post("/generate", {"inputs": PROMPT, "parameters": {"max_new_tokens": 1}},
                               headers={"Authorization": "Bearer a-Secret"})
        assert response.status_code == 200

    def test_open_routes(self, locked):
        for path in ("/health", "/health/live", "/health/ready", "/ping", "/info", "/metrics", "/v1/models"):
            assert locked.get(path).status_code == 200, path

    def test_the_key_is_nowhere_to_be_read(self, locked):
        assert "a-Secret" not in locked.out() + locked.err()
        for process in locked.processes():
            with open(f"/proc/{process.pid}/cmdline", "rb") as command:
                assert b"a-Secret" not in command.read()
