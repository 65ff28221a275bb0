"""--autoscale: processes of replicas come with the load and go with it; every stream is that of a single replica."""

import concurrent.futures
import os
import signal
import threading

import pytest

from demo import PROMPT
from launcher import failed_start
from process_tree import wait_until
from test_fleet import admin, answer_of, bodies, command, expect_answers, long_bodies, seen, wait_idle

# A replica computes so few prompt tokens, or so it is said, that a few prompts that wait are reason enough for another one.
SCALES = ("--replicas", "1", "--autoscale", "--replicas-max", "3", "--threads", "1", "--max-batch-size", "2",
          "--admin-listen", "127.0.0.1:0", "--planner-prefill-rate", "20", "--planner-tick-ms", "50",
          "--planner-window-ms", "1000", "--planner-warm-ttl-ms", "500", "--planner-down-cooldown-ms", "200",
          "--planner-drain-ms", "200", "--planner-start-pause-ms", "500")
LONG = 120  # seconds; nothing waits as long unless it fails


def shard_pids(launcher):
    return [p.pid for p in launcher.processes() if p.program == "text-generation-server"]


def states(launcher):
    return [r["state"] for r in seen(launcher, "/fleet").json()["replicas"]]


def decisions(launcher):
    return seen(launcher, "/fleet").json()["autoscale"]["decisions"]


class Load:
    """All of `work`, again and again, until it is left."""

    def __init__(self, launcher, work, expected):
        self.stop = threading.Event()
        self.rounds = 0

        def ask():
            while not self.stop.is_set():
                expect_answers(launcher, work, expected, range(len(work)))
                self.rounds += 1

        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        self.done = self.pool.submit(ask)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.pool.shutdown()
        self.done.result()


def wait_one_left(launcher):
    def one():
        return sorted(states(launcher)) == ["absent", "absent", "serving"] and len(shard_pids(launcher)) == 1

    wait_until(one, LONG, lambda: f"{states(launcher)}\n{launcher.log()}")


def test_replicas_come_with_a_burst_and_go_with_it(launch, server):
    fleet = launch(*SCALES).wait_ready()
    assert len(shard_pids(fleet)) == 1 and states(fleet) == ["serving", "absent", "absent"]
    work = bodies()
    expected = [answer_of(server, path, body) for path, body in work]
    for burst in range(2):
        with Load(fleet, work, expected) as load:
            wait_until(lambda: states(fleet) == ["serving"] * 3, LONG, fleet.log)
            assert len(shard_pids(fleet)) == 3
            n = load.rounds
            wait_until(lambda: load.rounds > n + 1 or load.done.done(), LONG, fleet.log)
        wait_one_left(fleet)
        assert fleet.get("/health").status_code == 200
    expect_answers(fleet, work, expected, range(len(work)))
    m = wait_idle(fleet)
    assert m["tgi_request_success"] == m["tgi_request_count"] and m["tgi_replica_restarts_total"] == 0
    assert m["tgi_request_resumes_total"] == 0, "nothing was lost"
    kinds = {d["decision"] for d in decisions(fleet)}
    assert {"load", "drain"} <= kinds and all(d["outcome"] == "done" for d in decisions(fleet))
    assert any(d["inputs"]["waiting_tokens"] > 0 for d in decisions(fleet) if d["decision"] == "load")
    assert "decision=\"load replica=" in fleet.out() and "nobody needs it" in fleet.out()
    refused = command(fleet, "TriggerScaleDown", stub_indices=[0])
    assert refused.status_code == 422 and "`autoscale`" in refused.text
    assert fleet.stop() == 0, fleet.log()


def test_streams_survive_kills_while_the_fleet_scales(launch, server):
    fleet = launch(*SCALES).wait_ready()
    work = bodies()
    expected = [answer_of(server, path, body) for path, body in work]
    with Load(fleet, work, expected):
        for _ in range(3):
            wait_until(lambda: len(shard_pids(fleet)) > 1, LONG, fleet.log)
            pid = shard_pids(fleet)[-1]
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: pid not in shard_pids(fleet), LONG, fleet.log)
            wait_until(lambda: states(fleet).count("serving") > 1, LONG, fleet.log)
    wait_one_left(fleet)
    m = wait_idle(fleet)
    assert m["tgi_request_success"] == m["tgi_request_count"]
    assert fleet.stop() == 0, fleet.log()


def test_roles_scale_too(launch, server):
    fleet = launch(*SCALES[2:], "--replicas", "2", "--roles", "prefill=1,decode=1").wait_ready()
    work = long_bodies()
    expected = [answer_of(server, path, body) for path, body in work]
    with Load(fleet, work, expected):
        wait_until(lambda: states(fleet) == ["serving"] * 3, LONG, fleet.log)
    wait_until(lambda: len(shard_pids(fleet)) == 2, LONG, fleet.log)
    assert fleet.stop() == 0, fleet.log()


def test_a_dry_run_only_says_what_it_would_do(launch, server):
    fleet = launch(*SCALES, "--planner", "dry-run").wait_ready()
    work = bodies()
    expected = [answer_of(server, path, body) for path, body in work]
    with Load(fleet, work, expected):
        wait_until(lambda: decisions(fleet), LONG, fleet.log)
    assert states(fleet) == ["serving", "absent", "absent"] and len(shard_pids(fleet)) == 1
    assert all(d["outcome"] == "dry run" for d in decisions(fleet))
    assert "outcome=\"dry run\"" in fleet.out()
    assert fleet.stop() == 0, fleet.log()


def test_a_router_that_is_started_again_finds_the_first_replicas(launch):
    fleet = launch(*SCALES).wait_ready()
    first = fleet.router_pid()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: fleet.router_pid() not in (None, first) and fleet.is_healthy(), LONG, fleet.log)
    assert fleet.post("/generate", {"inputs": PROMPT, "parameters": {"max_new_tokens": 5}}).status_code == 200
    assert fleet.stop() == 0, fleet.log()


@pytest.mark.parametrize("arguments, says", [
    (["--autoscale"], "`replicas_max` above 1"),
    (["--replicas-max", "3"], "`autoscale`"),
    (["--autoscale", "--replicas", "3", "--roles", "prefill=1,decode=1"], "`roles`"),
])
def test_what_cannot_scale_is_refused(launch, arguments, says):
    code, variant, cause, _ = failed_start(launch(*arguments))
    assert code == 2 and variant == "ArgumentValidation" and says in cause
