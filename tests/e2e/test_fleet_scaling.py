"""--autoscale: processes of replicas come with the load and go with it; every stream is that of a single replica."""

import concurrent.futures
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

import pytest

from demo import MODEL, PROMPT
from fleet_work import answer_of, bodies, long_bodies
from launcher import BIN, failed_start
from process_tree import wait_until
from test_fleet import admin, command, expect_answers, seen, wait_idle

# A replica computes so few prompt tokens, or so it is said, that a few prompts that wait are reason enough for another one.
SCALES = ("--replicas", "1", "--autoscale", "--replicas-max", "3", "--threads", "1", "--max-batch-size", "2",
          "--admin-listen", "127.0.0.1:0", "--planner-prefill-rate", "20", "--planner-tick-ms", "50",
          "--planner-window-ms", "1000", "--planner-warm-ttl-ms", "500", "--planner-down-cooldown-ms", "200",
          "--planner-drain-ms", "200", "--planner-start-pause-ms", "500")
# One replica is enough for what waits.
ZERO = (*("10000" if word == "20" else word for word in SCALES), "--replicas-min", "0")
# As much, of one replica that has the whole machine.
ONE = tuple("1" if word == "3" else word for word in ZERO)
TO_END = ("/generate", {"inputs": PROMPT, "parameters": {"max_new_tokens": 40}})
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


# ---- zero


def scaling(launcher):
    return seen(launcher, "/fleet").json()["autoscale"]


def wait_zero(launcher):
    def at_zero():
        assert launcher.get("/health").status_code == 200, "who asks is served"
        shown = scaling(launcher)
        return shown["state"] == "zero" and not shard_pids(launcher) and set(states(launcher)) == {"absent"}

    wait_until(at_zero, LONG, lambda: f"{launcher.log()}\n{seen(launcher, '/fleet').text}")


def cpu_seconds(launcher):
    ticks = 0
    for process in launcher.processes():
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def test_a_fleet_that_nobody_asks_has_no_process_and_comes_back(launch, server):
    fleet = launch(*ZERO).wait_ready()
    info = fleet.get("/info").json()
    work = bodies()
    expected = [answer_of(server, path, body) for path, body in work]
    wait_zero(fleet)
    assert " left=0" in fleet.out()
    where = admin(fleet, "").removeprefix("http://")
    page = subprocess.run([BIN / "coxswain", "fleet", "top", where], capture_output=True, text=True, timeout=60)
    assert "autoscale: act, 0 to 3 replicas; none runs until something is asked for" in page.stdout, page

    # What needs no model has its answer, and what is wrong is refused, without a start.
    assert fleet.get("/info").json() == info
    assert fleet.post("/tokenize", {"inputs": PROMPT}).status_code == 200
    assert fleet.post("/generate", {"inputs": PROMPT, "parameters": {"top_p": 2}}).status_code == 422
    before = cpu_seconds(fleet)
    time.sleep(2)
    assert cpu_seconds(fleet) - before < 0.06, "it does nothing"
    assert shard_pids(fleet) == []

    for _ in range(2):
        expect_answers(fleet, work, expected, range(len(work)))
        assert len(shard_pids(fleet)) > 0
        wait_zero(fleet)
    # While it is drained, warm, or ending: whatever the moment is, it is served.
    one = answer_of(server, *TO_END)
    for i in range(6):
        time.sleep(1 + 0.2 * i)
        assert answer_of(fleet, *TO_END) == one
    m = wait_idle(fleet)
    assert m["tgi_request_success"] == m["tgi_request_count"] - 1, "all but the one that was wrong"
    assert m["tgi_request_resumes_total"] == 0 and m["tgi_replica_restarts_total"] == 0
    assert fleet.stop() == 0, fleet.log()


def test_a_fleet_of_roles_ends_and_comes_back(launch, server):
    fleet = launch(*ZERO[2:], "--replicas", "2", "--roles", "prefill=1,decode=1").wait_ready()
    work = long_bodies()
    expected = [answer_of(server, path, body) for path, body in work]
    for _ in range(2):
        wait_zero(fleet)
        expect_answers(fleet, work, expected, range(len(work)))
    assert fleet.stop() == 0, fleet.log()


@pytest.mark.parametrize("options", [ZERO, ONE])
def test_the_only_replica_may_die_while_it_starts(launch, server, options):
    fleet = launch(*options).wait_ready()
    expected = answer_of(server, *TO_END)
    for _ in range(5):
        wait_zero(fleet)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(answer_of, fleet, *TO_END)
            pid = wait_until(lambda: shard_pids(fleet), LONG, fleet.log)[0]
            os.kill(pid, signal.SIGKILL)
            assert answer.result(LONG) == expected
        if "failed_in_a_row=1" in fleet.out():
            break  # else it served already
    assert "failed_in_a_row=1" in fleet.out()
    os.kill(shard_pids(fleet)[0], signal.SIGKILL)
    assert fleet.get("/health").status_code == 200
    assert answer_of(fleet, *TO_END) == expected, "it waits for the next one"
    assert fleet.stop() == 0, fleet.log()


def test_starts_that_fail_are_told_to_those_who_wait(launch, server, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(MODEL, model)
    fleet = launch(*ZERO, model=model).wait_ready()
    expected = answer_of(server, *TO_END)
    wait_zero(fleet)
    weights = next(model.glob("*.safetensors"))
    away = weights.rename(tmp_path / weights.name)
    response = fleet.post(*TO_END)
    assert response.status_code == 503, response.text
    assert "no replica can be started: 3 starts in a row have failed" in response.json()["error"]
    assert scaling(fleet)["state"] == "failing"
    wait_until(lambda: fleet.get("/health").status_code == 503, LONG, fleet.log)
    assert fleet.post(*TO_END).status_code == 503
    # It tries again by itself.
    away.rename(weights)
    wait_until(lambda: fleet.get("/health").status_code == 200, LONG, fleet.log)
    assert answer_of(fleet, *TO_END) == expected
    assert fleet.stop() == 0, fleet.log()


def test_limits_hold_while_the_first_one_starts(launch, server):
    fleet = launch(*ZERO, "--queue-requests-max", "1").wait_ready()
    wait_zero(fleet)
    expected = answer_of(server, *TO_END)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(fleet.post, *TO_END)
        pid = wait_until(lambda: shard_pids(fleet), LONG, fleet.log)[0]
        os.kill(pid, signal.SIGSTOP)
        refused = fleet.post(*TO_END)
        assert refused.status_code == 429, refused.text
        os.kill(pid, signal.SIGCONT)
        assert first.result(LONG).json() == expected
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


@pytest.mark.parametrize("options", [SCALES, ZERO])
def test_a_router_that_is_started_again_finds_the_first_replicas(launch, options):
    fleet = launch(*options).wait_ready()
    if options == ZERO:
        wait_zero(fleet)
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
