"""A machine whose weights still arrive computes first layers of prompts that wait for another one; no answer shows it."""

import concurrent.futures
import itertools
import json

import pytest
import requests

from fleet_work import LONG_PROMPT, answer_of
from launcher import MODEL

LAYERS = json.loads((MODEL / "config.json").read_text())["num_hidden_layers"]
# Of the demo model's 6 MB: seconds, in which its layers come one after the other.
SLOW = ("--weights-rate-max-bytes", str(512 << 10))


def work_of(turn):
    """Other prompts each turn: those that are in a cache are not divided."""
    parameters = {"max_new_tokens": 20, "details": True}
    return [("/generate" if i % 3 else "/generate_stream", {"inputs": f"{turn} and {i}. " + LONG_PROMPT * (1 + i % 8),
                                                            "parameters": {**parameters, **({"do_sample": True, "seed": i} if i % 2 else {})}})
            for i in range(24)]


class Door:
    """As answer_of() wants a server."""

    def __init__(self, url):
        self.url = url

    def post(self, path, body):
        return requests.post(self.url + path, json=body, timeout=120)


def loading(fleet, n, *words):
    """A door before a machine that has all weights, one that takes its weights from there, and more such as the first."""
    donor = fleet.shard("donor", "--threads", 1, *SLOW)
    others = [fleet.shard(f"other-{i}", "--threads", 1) for i in range(n - 2)]
    target = fleet.shard("target", "--threads", 1, "--weights-from", donor)
    return Door(fleet.router([donor, target, *others], *words))


def ask_all(door, server, turn):
    work = work_of(turn)
    with concurrent.futures.ThreadPoolExecutor(len(work)) as pool:
        answers = list(pool.map(lambda each: answer_of(door, *each), work))
    for each, answer in zip(work, answers):
        expected = answer_of(server, *each)
        assert answer == expected, f"{each}\n{json.dumps(answer)[:2000]}\n{json.dumps(expected)[:2000]}"


def ask_until_divided(fleet, door, server):
    """Until some prompts were divided; what GET /fleet says then."""
    for turn in itertools.count():
        ask_all(door, server, turn)
        now = fleet.fleet()
        if now["divided"]["moved"] >= 2:
            return now
        assert now["replicas"][1]["layers_ready"] < LAYERS, f"{now}\n{fleet.log('router')}"


def loads_beside_its_donor(now):
    """The router serves with whom it reached at once; the donor may be among the others for a moment."""
    donor, target = now["replicas"][:2]
    return donor["state"] == "serving" and target.get("layers_ready", LAYERS) < LAYERS


@pytest.mark.parametrize("roles", [(), ("--roles", "prefill=2,decode=1")], ids=["mixed", "roles"])
def test_a_machine_that_loads_computes_first_layers(fleet, server, roles):
    door = loading(fleet, 3 if roles else 2, *roles)
    seen = fleet.until(loads_beside_its_donor)["replicas"]
    assert [r["blitz_name"] for r in seen[:2]] == ["OldPrefill", "NewPrefill"] and [r["assist"] for r in seen[:2]] == ["donor", "target"], f"{seen}\n{fleet.log('router')}"
    now = ask_until_divided(fleet, door, server)
    target = now["replicas"][1]
    assert now["divided"]["layers"] >= now["divided"]["moved"] and target["first_layers"]["layers"] >= now["divided"]["layers"], now
    if roles:
        assert now["handovers"]["transport"] == "tcp" and target["generated_tokens"] == 0, now
    fleet.until(lambda now: "assist" not in now["replicas"][1])
    fleet.said("target", "All weights are there")
    ask_all(door, server, "then")
    now = fleet.until(lambda now: all(r["blocks"]["leased"] == 0 for r in now["replicas"]))
    assert now["requests"] == 0 and now["replicas"][1]["layers_ready"] == LAYERS and now["replicas"][1]["prompt_tokens"] > 0, now
    assert "is lost" not in fleet.log("router"), fleet.log("router")


def test_the_machine_that_loads_is_killed(fleet, server):
    door = loading(fleet, 2)
    ask_until_divided(fleet, door, server)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask_all, door, server, "amid")
        fleet.until(lambda now: now["requests"] > 0)
        fleet.kill("target")
        asked.result()
    now = fleet.until(lambda now: now["replicas"][0]["blocks"]["leased"] == 0)
    assert now["requests"] == 0 and now["replicas"][1]["state"] == "lost", now
