"""Fields of vLLM and llama-server below /v1, over the real processes: each does there what other fields show that it must."""

import math

import pytest

from demo import CONTEXT, MESSAGES, PROMPT
from sse import Stream

COMPLETIONS = "/v1/completions"
CHATS = "/v1/chat/completions"


def post(server, path, body):
    response = server.post(path, body)
    assert response.status_code == 200, response.text
    return response.json()


def complete(server, **fields):
    body = post(server, COMPLETIONS, {"prompt": PROMPT, "temperature": 0, **fields})
    return body["choices"][0], body["usage"]


def events(server, path, body):
    with Stream(server.url, path, {**body, "stream": True}) as stream:
        return list(stream.events())


def asking(path, **fields):
    prompt = {"prompt": PROMPT} if path == COMPLETIONS else {"messages": MESSAGES}
    return {**prompt, "temperature": 0, "max_tokens": 8, **fields}


def said(path, choice):
    return choice["text"] if path == COMPLETIONS else choice["message"]["content"]


def joined(choices, name):
    return [one for choice in choices for one in choice[name]]


@pytest.fixture(scope="module")
def native(server):
    """What TGI's route tells of the prompt and of eight tokens: {"prefill", "tokens"}."""
    return post(server, "/generate", {"inputs": PROMPT, "parameters": {"max_new_tokens": 8, "decoder_input_details": True, "details": True}})["details"]


def test_token_ids_of_a_completion(server, native):
    choice, _ = complete(server, max_tokens=8, return_token_ids=True)
    assert choice["prompt_token_ids"] == [token["id"] for token in native["prefill"]]
    assert choice["token_ids"] == [token["id"] for token in native["tokens"]]
    assert "token_ids" not in complete(server, max_tokens=8)[0]


@pytest.mark.parametrize("path", [COMPLETIONS, CHATS])
def test_token_ids_of_a_stream(server, path):
    body = asking(path, return_token_ids=True, n=2)
    whole = post(server, path, body)
    told = whole["choices"][0] if path == COMPLETIONS else whole
    chunks = events(server, path, body)
    for index in range(2):
        choices = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
        assert joined(choices, "token_ids") == whole["choices"][index]["token_ids"]
    first = chunks[0]["choices"][0] if path == COMPLETIONS else chunks[0]
    assert first["prompt_token_ids"] == told["prompt_token_ids"]
    assert whole["usage"]["prompt_tokens"] == len(told["prompt_token_ids"])
    detokenized = post(server, "/detokenize", {"tokens": whole["choices"][0]["token_ids"]})
    assert detokenized["prompt"] == said(path, whole["choices"][0])


def test_prompt_logprobs_are_those_of_the_native_route(server, native):
    entries = complete(server, max_tokens=1, prompt_logprobs=3)[0]["prompt_logprobs"]
    assert entries[0] is None and len(entries) == len(native["prefill"])
    for entry, token in zip(entries[1:], native["prefill"][1:], strict=True):
        own, *_ = entry
        assert own == str(token["id"]) and entry[own]["logprob"] == token["logprob"]
        ranked = sorted((one for one in entry.values() if one["rank"]), key=lambda one: one["rank"])
        assert [one["rank"] for one in ranked] == [1, 2, 3]
        assert [one["logprob"] for one in ranked] == sorted((one["logprob"] for one in ranked), reverse=True)
        assert entry[own]["rank"] or entry[own]["logprob"] <= ranked[-1]["logprob"]
    none = complete(server, max_tokens=1, prompt_logprobs=0)[0]["prompt_logprobs"]
    assert [list(entry) for entry in none[1:]] == [[str(token["id"])] for token in native["prefill"][1:]]


@pytest.mark.parametrize("path", [COMPLETIONS, CHATS])
def test_prompt_logprobs_of_a_stream(server, path):
    body = asking(path, prompt_logprobs=2)
    whole = post(server, path, body)
    chunks = events(server, path, body)
    if path == COMPLETIONS:
        assert chunks[0]["choices"][0]["prompt_logprobs"] == whole["choices"][0]["prompt_logprobs"]
        assert all("prompt_logprobs" not in chunk["choices"][0] for chunk in chunks[1:])
    else:
        assert chunks[0]["prompt_logprobs"] == whole["prompt_logprobs"]
        assert all("prompt_logprobs" not in chunk for chunk in chunks[1:])


@pytest.mark.parametrize("path", [COMPLETIONS, CHATS])
def test_timings(server, path):
    body = asking(path, timings_per_token=True, cache_prompt=False)
    whole = post(server, path, body)
    timings, usage = whole["timings"], whole["usage"]
    assert (timings["cache_n"], timings["prompt_n"], timings["predicted_n"]) == (0, usage["prompt_tokens"], usage["completion_tokens"])
    for phase in ("prompt", "predicted"):
        n, ms = timings[f"{phase}_n"], timings[f"{phase}_ms"]
        assert ms > 0
        assert math.isclose(timings[f"{phase}_per_token_ms"], ms / n, rel_tol=1e-5)
        assert math.isclose(timings[f"{phase}_per_second"], 1e3 * n / ms, rel_tol=1e-5)
    chunks = events(server, path, {**body, "stream_options": {"include_usage": True}})
    told = [chunk["timings"] for chunk in chunks]
    assert [one["predicted_n"] for one in told] == [*range(1, 9), 8]
    assert [one["predicted_ms"] for one in told] == sorted(one["predicted_ms"] for one in told)
    assert len({(one["prompt_n"], one["prompt_ms"]) for one in told}) == 1
    assert "timings" not in post(server, path, asking(path))


def test_n_predict_is_max_tokens(server):
    assert complete(server, n_predict=6) == complete(server, max_tokens=6)
    assert complete(server, n_predict=-1)[0] == complete(server)[0]


def test_repeat_penalty_is_repetition_penalty(server):
    mild = complete(server, max_tokens=30, repeat_penalty=1.8)[0]
    assert mild == complete(server, max_tokens=30, repetition_penalty=1.8)[0]
    assert mild["text"] != complete(server, max_tokens=30)[0]["text"]
    assert complete(server, max_tokens=30, repeat_penalty=1.8, repeat_last_n=0)[0] == complete(server, max_tokens=30)[0]


def test_min_tokens_keeps_the_end_off(server):
    choice, usage = complete(server, return_token_ids=True)
    n = usage["completion_tokens"]
    assert choice["finish_reason"] == "stop"
    longer, more = complete(server, min_tokens=n + 3, max_tokens=n + 20, return_token_ids=True)
    assert more["completion_tokens"] >= n + 3
    assert longer["token_ids"][:n - 1] == choice["token_ids"][:n - 1] and longer["token_ids"][n - 1] != choice["token_ids"][-1]
    assert complete(server, min_tokens=n - 1, return_token_ids=True)[0] == choice


def test_stop_token_ids_end_an_answer(server, native):
    ids = [token["id"] for token in native["tokens"]]
    place = next(i for i, token in enumerate(ids) if i >= 3 and token not in ids[:i])
    choice, usage = complete(server, max_tokens=8, stop_token_ids=[ids[place]], return_token_ids=True)
    assert (choice["finish_reason"], usage["completion_tokens"], choice["token_ids"]) == ("stop", place + 1, ids[:place + 1])
    assert choice["text"] == "".join(token["text"] for token in native["tokens"][:place])
    kept = complete(server, max_tokens=8, stop_token_ids=[ids[place]], include_stop_str_in_output=True)[0]
    assert kept["text"] == "".join(token["text"] for token in native["tokens"][:place + 1])
    streamed = events(server, COMPLETIONS, {"prompt": PROMPT, "temperature": 0, "max_tokens": 8, "stop_token_ids": [ids[place]]})
    assert "".join(chunk["choices"][0]["text"] for chunk in streamed) == choice["text"]


def test_a_stop_string_stays_where_it_is_wanted(server):
    whole = complete(server)[0]["text"]
    end = whole.index(".") + 1
    assert complete(server, stop=".")[0]["text"] == whole[:end - 1]
    assert complete(server, stop=".", include_stop_str_in_output=True)[0]["text"] == whole[:end]
    streamed = events(server, COMPLETIONS, {"prompt": PROMPT, "temperature": 0, "stop": ".", "include_stop_str_in_output": True})
    assert "".join(chunk["choices"][0]["text"] for chunk in streamed) == whole[:end]


@pytest.mark.parametrize("path", [COMPLETIONS, CHATS])
def test_special_tokens_are_shown(server, path):
    body = asking(path, max_tokens=300, return_token_ids=True)
    plain = post(server, path, body)["choices"][0]
    assert plain["finish_reason"] == "stop"
    shown = post(server, path, {**body, "skip_special_tokens": False, "include_stop_str_in_output": True})["choices"][0]
    ends = post(server, "/detokenize", {"tokens": shown["token_ids"][-1:]})["prompt"]
    assert ends and said(path, shown) == said(path, plain) + ends
    assert said(path, post(server, path, {**body, "skip_special_tokens": False})["choices"][0]) == said(path, plain)


def test_the_best_of_several_is_that_of_the_highest_mean(server):
    body = {"prompt": PROMPT, "max_tokens": 8, "seed": 7, "temperature": 1.5, "logprobs": 0}
    several = post(server, COMPLETIONS, {**body, "n": 2})["choices"]
    means = [sum(choice["logprobs"]["token_logprobs"]) / len(choice["logprobs"]["tokens"]) for choice in several]
    assert means[0] != means[1]
    best = post(server, COMPLETIONS, {**body, "best_of": 2})
    assert best["choices"] == [{**several[means.index(max(means))], "index": 0}]
    assert best["usage"]["completion_tokens"] == sum(len(choice["logprobs"]["tokens"]) for choice in several)


def test_a_prompt_is_cut_in_front(server):
    ids = [token["id"] for token in post(server, "/tokenize", {"inputs": PROMPT})]
    cut, usage = complete(server, max_tokens=8, truncate_prompt_tokens=3, return_token_ids=True)
    assert (cut["prompt_token_ids"], usage["prompt_tokens"]) == (ids[-3:], 3)
    assert cut == complete(server, prompt=ids[-3:], max_tokens=8, return_token_ids=True)[0]
    long = [ids[-1]] * (2 * CONTEXT)
    assert server.post(COMPLETIONS, {"prompt": long, "max_tokens": 8}).status_code == 400
    assert complete(server, prompt=long, max_tokens=8, truncate_prompt_tokens=-1)[1]["prompt_tokens"] == CONTEXT - 8


def test_a_prompt_is_left_out_of_the_cache(server):
    prompt = "Fields " + "fox " * 100

    def cached(**fields):
        return complete(server, prompt=prompt, max_tokens=2, **fields)[1]["prompt_tokens_details"]["cached_tokens"]

    assert [cached(cache_prompt=False), cached(cache_prompt=False), cached()] == [0, 0, 0]
    assert cached() > 0
    assert cached(cache_prompt=False) == 0
