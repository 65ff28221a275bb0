"""Replicas on other machines: shards that listen with certificates of their fleet, and a router that has none of its own
machine."""

import json
import re
import subprocess

import pytest
import requests

from launcher import BIN, MODEL
from machines import STORY, answer, openssl, strike_amid_an_answer


@pytest.fixture
def fleet(fleet_of_hosts):
    return fleet_of_hosts


def test_streams_outlive_a_machine(fleet):
    places = {name: fleet.shard(name) for name in ("one", "two")}
    url = fleet.router(list(places.values()))
    whole = {seed: answer(url, seed) for seed in range(8)}
    seed, name, text = strike_amid_an_answer(fleet, url, places, fleet.kill)
    assert text == whole[seed]
    assert [answer(url, seed) for seed in whole] == list(whole.values())
    # A machine that comes back is used again.
    fleet.shard(name, listen=places[name].removeprefix("tcp://"))
    fleet.serving(2)
    assert [answer(url, seed) for seed in whole] == list(whole.values())


def test_a_router_starts_without_a_machine(fleet):
    away = fleet.free_place("away")
    places = {"here": fleet.shard("here"), "away": f"tcp://{away}"}
    url = fleet.router([places["away"], places["here"]])
    assert [(r["address"], r["state"]) for r in fleet.fleet()["replicas"]] == [(places["away"], "lost"), (places["here"], "serving")]
    whole = {seed: answer(url, seed) for seed in range(8)}
    fleet.shard("away", listen=away)
    assert fleet.serving(2)["restarts"] == 0, "its first start is none"
    seed, _, text = strike_amid_an_answer(fleet, url, places, fleet.kill)
    assert text == whole[seed]
    assert [answer(url, seed) for seed in whole] == list(whole.values())


def test_a_router_waits_for_the_first_machine(fleet):
    place = fleet.free_place("one")
    fleet.start_router("--master-shard-uds-path", f"tcp://{place}")
    fleet.said("router", "waiting for a shard")
    fleet.shard("one", listen=place)
    answer(fleet.connected(), 1)


# Of more than a block.
STORY_BODY = {"messages": [{"role": "user", "content": "What is 12 + 30?"},
                           {"role": "assistant", "content": "12 + 30: 2+0=2, 1+3=4. 12 + 30 = 42"},
                           {"role": "user", "content": STORY}], "temperature": 0, "max_tokens": 200}


def by_ucx(fleet, *names):
    """Options of a shard for blocks by UCX on the network of these hosts."""
    networks = ",".join({fleet.host(name).address.rpartition(".")[0] + ".0/24" for name in names})
    words = ["--fleet-listen", "127.0.0.1:0", "--kv-ucx-networks", networks, *fleet.files(names[0])]
    probe = subprocess.run([str(w) for w in (BIN / "text-generation-server", "serve", "/nowhere", *words)], capture_output=True, text=True,
                           timeout=60, check=False)
    if "COXSWAIN_UCX" in probe.stdout + probe.stderr:
        pytest.skip("built without COXSWAIN_UCX")
    return ["--kv-ucx-networks", networks]


@pytest.mark.parametrize("transport", ["tcp", "ucx"])
def test_blocks_go_from_machine_to_machine(fleet, transport):
    words = by_ucx(fleet, "prompts", "answers") if transport == "ucx" else []
    alone = fleet.router([fleet.shard("alone")])

    def told(url):
        done = requests.post(url + "/v1/chat/completions", json=STORY_BODY, timeout=120).json()
        return done["choices"], done["usage"]["completion_tokens"], done["usage"]["prompt_tokens"]

    expected = told(alone)
    assert expected[1] > 1 and expected[2] > 16, "a block to hand over"
    fleet.kill("router")
    url = fleet.router([fleet.shard("prompts", *words), fleet.shard("answers", *words)], "--roles", "prefill=1,decode=1")
    assert told(url) == expected
    handovers = fleet.fleet()["handovers"]
    assert handovers["transport"] == transport and handovers["moved"] == 1 and handovers["bytes"] > 0, handovers


def test_an_answer_goes_on_when_the_source_of_its_blocks_dies(fleet):
    words = by_ucx(fleet, "prompts", "answers")
    url = fleet.router([fleet.shard("prompts", *words), fleet.shard("answers", *words)], "--roles", "prefill=1,decode=1")

    def told(salt, when_it_begins=lambda: None):
        body = {**STORY_BODY, "stream": True, "cache_salt": salt}
        with requests.post(url + "/v1/chat/completions", json=body, stream=True, timeout=120) as stream:
            lines = (json.loads(line[6:]) for line in stream.iter_lines() if line.startswith(b"data: {"))
            texts = [line["choices"][0]["delta"].get("content") or "" for line in lines if not when_it_begins()]
        return "".join(texts)

    whole = told("first")
    assert whole and fleet.fleet()["handovers"]["transport"] == "ucx"
    kill = iter([lambda: fleet.kill("prompts")])  # with the first line, while blocks are being handed over
    assert told("second", lambda: next(kill, lambda: None)()) == whole
    assert told("third") == whole


def test_strangers_are_refused(fleet):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=others", "-keyout",
            str(fleet.folder / "others.key"), "-out", str(fleet.folder / "others.pem"))
    place = fleet.shard("one")
    words = ["--tokenizer-name", MODEL, "--port", 0, "--master-shard-uds-path", place]
    for files, said in (([], "give all three"), (fleet.files("stranger", "others"), "no other machine would believe it")):
        done = subprocess.run([str(w) for w in (BIN / "text-generation-router", *words, *files)], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    words = ["-connect", place.removeprefix("tcp://"), "-CAfile", str(fleet.folder / "ca.pem"), "-tls1_2"]
    probe = subprocess.run(["openssl", "s_client", *words], input=b"GET\n", capture_output=True, timeout=60, check=False)
    assert b"error" in probe.stderr, probe.stderr
    assert "panic" not in fleet.log("one") and fleet.processes["one"].poll() is None


def test_weights_come_from_another_machine(fleet):
    place = fleet.shard("one")
    fleet.start("two", "text-generation-server", "serve", MODEL, "--uds-path", fleet.folder / "two", "--weights-from", place, *fleet.files("two"))
    fleet.said("two", r"All weights are there")
    assert re.search(r"Weights of other shards: .*" + re.escape(place), fleet.log("two")), fleet.log("two")
