"""Links between machines that are slow, or cut: nobody is told, and no connection ends by itself."""

import concurrent.futures
import time

import pytest
import requests

from machines import STORY, answer, strike_amid_an_answer

SEEDS = range(8)
# Its blocks are 660 KB, and so on their way for more than a second.
PROMPT = STORY * 40
SLOW, SLOW_BYTES_PER_SECOND = "4mbit", 500_000


@pytest.fixture
def fleet(fleet_of_links):
    return fleet_of_links


def texts(url):
    return [answer(url, seed) for seed in SEEDS]


def told(url):
    body = {"prompt": PROMPT, "max_tokens": 60, "ignore_eos": True, "temperature": 0, "logprobs": 1}
    done = requests.post(url + "/v1/completions", json=body, timeout=120)
    assert done.status_code == 200, done.text
    return done.json()["choices"]


def at_rest(fleet):
    """What GET /fleet says once nothing is asked for and no block is held."""
    return fleet.until(lambda now: now["requests"] == 0 and all(r["blocks"]["leased"] == 0 for r in now["replicas"]))


def prompts_and_answers(fleet):
    """The URL of a router before two machines that compute prompts and answers apart, and what one alone answers."""
    expected = told(fleet.router([fleet.shard("alone")]))
    fleet.kill("router")
    fleet.kill("alone")
    return fleet.router([fleet.shard("prompts"), fleet.shard("answers")], "--roles", "prefill=1,decode=1"), expected


def test_streams_outlive_a_link(fleet):
    places = {name: fleet.shard(name) for name in ("one", "two")}
    url = fleet.router(list(places.values()))
    whole = texts(url)

    def cut_for_a_moment(name):
        fleet.host(name).cut()
        time.sleep(0.5)
        fleet.host(name).mend()

    seed, _, text = strike_amid_an_answer(fleet, url, places, cut_for_a_moment)
    assert text == whole[seed]
    now = at_rest(fleet)
    assert now["serving"] == 2 and now["resumed"] == 0 and now["restarts"] == 0, "that is no loss"

    seed, name, text = strike_amid_an_answer(fleet, url, places, lambda name: fleet.host(name).cut())
    assert text == whole[seed]
    now = fleet.fleet()
    assert now["resumed"] == 1 and {r["address"]: r["state"] for r in now["replicas"]}[places[name]] == "lost", now
    assert texts(url) == whole
    # A machine that is reached again is used again.
    fleet.host(name).mend()
    fleet.serving(2)
    assert texts(url) == whole
    at_rest(fleet)


def test_blocks_go_over_a_slow_link(fleet):
    url, expected = prompts_and_answers(fleet)
    fleet.host("prompts").rate(SLOW)
    begin = time.monotonic()
    assert told(url) == expected
    took = time.monotonic() - begin
    handovers = at_rest(fleet)["handovers"]
    assert handovers["transport"] == "tcp" and handovers["moved"] == 1, handovers
    assert took > handovers["bytes"] / SLOW_BYTES_PER_SECOND / 2, f"{took} s, {handovers}"


@pytest.mark.parametrize("name", ["prompts", "answers"])
def test_a_link_is_cut_amid_a_handover(fleet, name):
    url, expected = prompts_and_answers(fleet)
    fleet.host("prompts").rate(SLOW)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(told, url)
        fleet.until(lambda now: now["handovers"]["running"] == 1)
        time.sleep(0.2)
        fleet.host(name).cut()
        assert asked.result() == expected
    now = at_rest(fleet)
    assert now["serving"] == 1 and now["handovers"]["moved"] == 0 and now["handovers"]["recomputed"] == 1, now


def test_blocks_of_machines_that_do_not_reach_each_other_go_through_the_router(fleet):
    url, expected = prompts_and_answers(fleet)
    for name in ("prompts", "answers"):
        fleet.host(name).isolate()
    assert told(url) == expected
    handovers = at_rest(fleet)["handovers"]
    assert handovers["transport"] == "router" and handovers["moved"] == 1, handovers


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_link_is_cut_amid_the_weights(fleet, comes_back):
    place = fleet.shard("one")
    url = fleet.router([place])
    whole = texts(url)
    fleet.kill("router")
    fleet.host("one").rate("32mbit")  # 1.5 s
    two = fleet.shard("two", "--weights-from", place, *([] if comes_back else ["--weights-from-timeout-ms", 500]))
    fleet.said("two", "Weights arrive while requests are served")
    time.sleep(0.2)
    fleet.host("one").cut()
    assert "All weights are there" not in fleet.log("two")
    if comes_back:
        time.sleep(0.5)
        fleet.host("one").mend()
    url = fleet.router([two])
    assert texts(url) == whole
    fleet.said("two", "All weights are there")
    assert ("the rest of the weights is loaded here" in fleet.log("two")) != comes_back, fleet.log("two")
    # It is asked once more, and to connect takes no longer either.
    assert fleet.log("two").count("is left: nothing came for 500 ms") == (0 if comes_back else 2), fleet.log("two")
