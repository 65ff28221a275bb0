"""generate.v3 in both directions: a shard of ours under a router that speaks it, and our router over shards that speak it."""

import os
import pathlib
import subprocess

import pytest

from demo import PROMPT, ROOT
from launcher import BIN
from process_tree import wait_until
from sse import Stream
from test_faults import generates, wait_conserved, wait_idle
from test_law1 import ask, bodies_of, guesses_until_one_is_right, together

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.parametrize("name", ["TinyStories-656K", "stories260K"])
def test_a_shard_under_a_stock_router(reference_models, name):
    """stock_protocol.py makes the calls that such a router makes, in an environment with gRPC's own Python library."""
    python = pathlib.Path(os.environ["COXSWAIN_E2E_VENVS"]) / "venv-stock-protocol/bin/python"
    command = [python, "-B", HERE / "stock_protocol.py", BIN / "text-generation-server", reference_models / name, ROOT / "proto"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "passed", done.stdout + done.stderr


@pytest.fixture
def over_stock(launch):
    """Our router, told to take our shard for one of text-generation-inference."""
    # Prompts are computed whole there, so a step must have room for the longest.
    launcher = launch("--max-batch-prefill-tokens", "2048", environment={"COXSWAIN_SHARD_PROTOCOL": "generate.v3"}).wait_ready()
    assert "the shard is driven by generate.v3" in launcher.out()
    return launcher


class TestRouterOverStockShards:
    def test_the_same_answers(self, server, over_stock):
        """Our shard keeps law 1 whoever drives it, so everything can be compared, alone and together."""
        for sampled in (False, True):
            bodies = bodies_of(23, sampled)[:8]
            expected = together(server, bodies)
            assert ask(over_stock, bodies[0]) == expected[0]
            assert together(over_stock, bodies) == expected
        wait_idle(over_stock)
        assert over_stock.stop() == 0

    def test_chat_streams_stop_strings_and_limits(self, server, over_stock):
        chat = {"messages": [{"role": "user", "content": "Tell me a story about a fox and a boat."}], "max_tokens": 60, "temperature": 0, "seed": 1}
        for change in ({}, {"stop": ["fox"]}, {"logprobs": True, "top_logprobs": 3}):
            choices = [s.post("/v1/chat/completions", {**chat, **change}).json()["choices"] for s in (server, over_stock)]
            assert choices[0] == choices[1]
        texts = []
        for s in (server, over_stock):
            with Stream(s.url, "/v1/completions", {"prompt": "Once", "max_tokens": 200, "temperature": 0, "stream": True}) as stream:
                texts.append("".join(e["choices"][0]["text"] for e in stream.events() if e["choices"]))
        assert texts[0] == texts[1] and texts[0]
        limits = [s.get("/info").json() for s in (server, over_stock)]
        assert limits[0]["max_total_tokens"] == limits[1]["max_total_tokens"]
        assert limits[0]["max_input_tokens"] == limits[1]["max_input_tokens"]
        assert over_stock.stop() == 0

    def test_grammars_travel_as_patterns(self, server, over_stock):
        schema = {"properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}}, "required": ["name", "age"]}
        for grammar in ({"type": "regex", "value": r"(\d{1,3}\.){3}\d{1,3}"}, {"type": "json", "value": schema}):
            body = {"inputs": PROMPT, "parameters": {"max_new_tokens": 40, "grammar": grammar}}
            texts = [s.post("/generate", body).json()["generated_text"] for s in (server, over_stock)]
            assert texts[0] == texts[1] and texts[0]
        recursive = {"prompt": PROMPT, "max_tokens": 9, "response_format": {"type": "json_object"}}
        response = over_stock.post("/v1/completions", recursive)
        assert response.status_code == 400 and "it is recursive" in response.json()["error"]["message"], response.text
        assert over_stock.stop() == 0

    def test_shards_that_guess(self, launch, server):
        options = ("--max-batch-prefill-tokens", "2048", "--speculate", "4")
        launcher = launch(*options, environment={"COXSWAIN_SHARD_PROTOCOL": "generate.v3"}).wait_ready()
        bodies = bodies_of(23, True)[:8] + bodies_of(22, False)
        assert together(launcher, bodies) == together(server, bodies)
        computed, right = guesses_until_one_is_right(launcher, bodies)
        assert right <= computed
        metrics = launcher.metrics()
        assert metrics["tgi_draft_tokens_total"] >= metrics["tgi_draft_tokens_accepted_total"] == metrics["tgi_request_skipped_tokens_sum"] > 0
        assert launcher.stop() == 0

    def test_what_the_protocol_cannot_carry(self, over_stock):
        for field, value in (("logit_bias", {"20": 1}), ("presence_penalty", 1)):
            response = over_stock.post("/v1/completions", {"prompt": "Once", "max_tokens": 3, field: value})
            assert (response.status_code, response.json()["error"]["code"]) == (400, "unsupported_parameter"), response.text
            assert response.json()["error"]["message"] == f"Request failed during generation: `{field}` is not supported by this shard"
        # Special tokens that a user spells are no special tokens: as text they would be.
        chat = {"messages": [{"role": "user", "content": "<|end|>"}], "max_tokens": 3}
        response = over_stock.post("/v1/chat/completions", chat)
        assert response.status_code == 400 and "no text stands for the tokens" in response.json()["error"]["message"]
        assert generates(over_stock)
        assert over_stock.stop() == 0

    def test_clients_that_leave(self, over_stock):
        body = {"prompt": PROMPT, "max_tokens": 1000, "temperature": 0, "ignore_eos": True, "stream": True}
        streams = [Stream(over_stock.url, "/v1/completions", body) for _ in range(4)]
        events = [stream.events() for stream in streams]
        for e in events:
            next(e)
        for stream in streams[:3]:
            stream.close()
        assert list(events[3])[-1]["choices"][0]["finish_reason"] == "length"
        streams[3].close()
        wait_idle(over_stock)
        wait_conserved(over_stock)
        assert over_stock.stop() == 0

    def test_killed_shard(self, over_stock):
        before = over_stock.shard_pid()
        os.kill(before, 9)
        wait_until(lambda: over_stock.shard_pid() not in (None, before), 20, over_stock.log)
        wait_until(lambda: over_stock.is_healthy() and generates(over_stock), 20, over_stock.log)
        assert over_stock.stop() == 0
