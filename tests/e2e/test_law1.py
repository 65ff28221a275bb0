"""The answer of a request depends on that request alone, bit for bit, seen over HTTP."""

import concurrent.futures
import json
import random

import pytest

from demo import PROMPT
from sse import Stream

PROMPTS = [PROMPT, "The fox had a boat.", "A", "In the forest there lived an old owl who",
           "One day a cat went to the river and found", "It was raining."]


def ask(server, body):
    response = server.post("/generate", body)
    assert response.status_code == 200, response.text
    # Numbers as text, so that equal means equal bits as printed.
    answer = json.loads(response.text, parse_float=str)
    # How much was guessed hangs on the clock.
    details = answer.get("details") or {}
    for one in [details, *(details.get("best_of_sequences") or [])]:
        for name in ("draft_n", "draft_n_accepted"):
            one.pop(name, None)
    return answer


def together(server, bodies):
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(lambda body: ask(server, body), bodies))


def bodies_of(seed, sampled):
    """16 requests of different lengths and wishes."""
    rng = random.Random(seed)
    out = []
    for i in range(16):
        parameters = {"max_new_tokens": rng.randint(5, 60), "details": True, "decoder_input_details": i % 4 == 0, "top_n_tokens": i % 3}
        if sampled:
            parameters |= {"do_sample": True, "temperature": rng.choice([0.7, 1.0, 1.3]), "seed": rng.randrange(2**64)}
            parameters |= rng.choice([{}, {"top_k": 20}, {"top_p": 0.9}, {"typical_p": 0.8}])
        else:
            parameters |= rng.choice([{}, {"repetition_penalty": 1.2}, {"frequency_penalty": 0.5}])
        out.append({"inputs": rng.choice(PROMPTS) * rng.randint(1, 8), "parameters": parameters})
    return out


def guesses_until_one_is_right(server, bodies):
    """How many were computed and right. Whether to guess follows the clock, so it asks again where none was right."""
    for _ in range(20):
        details = [server.post("/generate", body).json()["details"] for body in bodies]
        computed, right = (sum(d.get(name, 0) for d in details) for name in ("draft_n", "draft_n_accepted"))
        if right > 0:
            return computed, right
    pytest.fail("no guess was right")


@pytest.mark.parametrize("sampled", [False, True], ids=["greedy", "sampled"])
def test_alone_and_among_others(server, sampled):
    bodies = bodies_of(11, sampled)
    alone = [ask(server, body) for body in bodies]
    assert len({a["generated_text"] for a in alone}) > 4
    for _ in range(2):
        assert together(server, bodies) == alone
        random.Random(5).shuffle(bodies)
        alone = [ask(server, body) for body in bodies]


def test_among_others_of_every_kind(server):
    """The one request that is looked at runs beside 15 that start and stop around it."""
    body = {"inputs": "The fox had a boat.", "parameters": {"max_new_tokens": 150, "details": True}}
    alone = ask(server, body)
    answers = together(server, [body] + bodies_of(3, True)[:15])
    assert answers[0] == alone


def test_cached_prefix(server):
    """The second time the prompt comes from the cache; with prompt details it is computed again."""
    body = {"inputs": "A long walk. " * 40, "parameters": {"max_new_tokens": 20, "details": True}}
    before = server.metrics()["tgi_prefix_cache_hit_tokens_total"]
    first = ask(server, body)
    assert ask(server, body) == first
    assert server.metrics()["tgi_prefix_cache_hit_tokens_total"] > before
    details = ask(server, {**body, "parameters": {**body["parameters"], "decoder_input_details": True}})
    assert details["details"]["tokens"] == first["details"]["tokens"]
    assert len(details["details"]["prefill"]) > 40


def test_streams_among_others(server):
    body = {"inputs": PROMPT, "parameters": {"max_new_tokens": 40, "details": True, "do_sample": True, "seed": 5}}
    alone = ask(server, body)

    def stream(_):
        with Stream(server.url, "/generate_stream", body) as s:
            return [json.loads(json.dumps(e["token"]), parse_float=str) for e in s.events()]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for tokens in pool.map(stream, range(8)):
            assert tokens == alone["details"]["tokens"]


def test_seeds(server):
    def text(**parameters):
        body = {"inputs": PROMPT, "parameters": {"do_sample": True, "max_new_tokens": 30, "details": True, **parameters}}
        answer = ask(server, body)
        return answer["generated_text"], answer["details"]["seed"]

    assert len({text(seed=s)[0] for s in range(8)}) > 1
    assert text(seed=2**64 - 1) == text(seed=2**64 - 1)
    drawn, seed = text()
    assert text(seed=seed) == (drawn, seed)
    assert len({text()[1] for _ in range(8)}) == 8


def test_the_same_on_every_start_and_number_of_threads(server, launch):
    body = {"inputs": "The fox had a boat.", "parameters": {"max_new_tokens": 100, "details": True}}
    expected = ask(server, body)
    other = launch("--threads", "1", "--max-batch-prefill-tokens", "32").wait_ready()
    assert ask(other, body) == expected
    assert other.stop() == 0


def test_the_same_with_tokens_guessed_ahead(server, launch):
    """Greedy and sampled, with stop strings, alone and together, streamed and not; and tokens were guessed."""
    bodies = bodies_of(21, True) + bodies_of(22, False)
    for i, stop in enumerate([" the", ".", "a ", "zebra"]):
        bodies[7 * i]["parameters"]["stop"] = [stop]
    before = server.metrics()["tgi_request_skipped_tokens_sum"]  # of grammars, whose text is guessed anyway
    expected = [ask(server, body) for body in bodies]
    other = launch("--speculate", "5").wait_ready()
    assert [ask(other, body) for body in bodies] == expected
    assert together(other, bodies) == expected
    for body, answer in list(zip(bodies, expected))[::8]:
        body["parameters"]["decoder_input_details"] = False
        with Stream(other.url, "/generate_stream", body) as s:
            tokens = [json.loads(json.dumps(e["token"]), parse_float=str) for e in s.events()]
        assert tokens == answer["details"]["tokens"]
    computed, right = guesses_until_one_is_right(other, bodies)
    assert right <= computed
    assert other.metrics()["tgi_request_skipped_tokens_sum"] >= right
    assert server.metrics()["tgi_request_skipped_tokens_sum"] == before
    assert other.stop() == 0
