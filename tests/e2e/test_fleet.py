"""--replicas: several shards behind one router, any of which may die at any moment."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import stat
import subprocess
import threading
import time

import pytest
import requests

from demo import PROMPT
from fleet_work import answer_of, bodies, long_bodies
from launcher import BIN, failed_start
from process_tree import wait_until

# A service that dies five times within a minute ends the launcher.
KILLS_OF_EACH = 3


def shards(launcher):
    """{replica: pid} of those that run."""
    found = {}
    for process in launcher.processes():
        if process.program != "text-generation-server":
            continue
        try:
            words = pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        path = next(w for w in words if w.startswith("--uds-path="))
        found[1 if path.endswith("-replica-1") else 0] = process.pid
    return found


ROLES = ("--replicas", "2", "--threads", "1", "--roles", "prefill=1,decode=1", "--admin-listen", "127.0.0.1:0")


@pytest.fixture
def fleet(launch):
    return launch("--replicas", "2", "--threads", "1", "--admin-listen", "127.0.0.1:0").wait_ready()


def admin(launcher, path):
    port = re.search(r"the replicas are shown at=127.0.0.1:(\d+)", launcher.out())[1]
    return f"http://127.0.0.1:{port}{path}"


def over(socket_path, method, path, body=None):
    """The status and the document that an HTTP request over a Unix socket is answered with."""
    connection = http.client.HTTPConnection("localhost", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(socket_path))
    with contextlib.closing(connection):
        connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def seen(launcher, path):
    response = requests.get(admin(launcher, path), timeout=60)
    assert response.status_code == 200
    return response


def command(launcher, kind, **data):
    return requests.post(admin(launcher, "/modify_cluster_state"), json={"type": kind, "data": data}, timeout=60)


def wait_idle(launcher):
    def idle():
        m = launcher.metrics()
        return m["tgi_kv_blocks_leased"] == m["tgi_kv_blocks_retiring"] == m["tgi_queue_size"] == m["tgi_batch_current_size"] == 0 and m

    m = wait_until(idle, 20, lambda: f"idle: {launcher.metrics()}")
    assert m["tgi_kv_blocks_free"] + m["tgi_kv_blocks_cached"] == m["tgi_kv_blocks_total"]
    return m


def test_both_replicas_serve(fleet):
    assert len(shards(fleet)) == 2
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: fleet.post("/generate", {"inputs": PROMPT, "parameters": {"max_new_tokens": 200}}).json(), range(8)))
    assert all(a == answers[0] for a in answers)
    m = wait_idle(fleet)
    assert m["tgi_replica_up"] == 2 and m["tgi_request_success"] == 8
    fleet.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: "state of replica 1 queued=0" in fleet.out(), 20, fleet.log)
    finished = [line.split(" finished=")[1].split()[0] for line in fleet.out().splitlines() if "state of replica" in line]
    assert len(finished) == 2 and all(int(n) > 0 for n in finished), finished
    assert "replicas  2, each with what follows" in fleet.out()
    shown = seen(fleet, "/fleet").json()
    assert [r["state"] for r in shown["replicas"]] == ["serving"] * 2 and shown["serving"] == 2
    assert sum(r["generated_tokens"] for r in shown["replicas"]) > 0 and shown["requests"] == 0
    labelled = seen(fleet, "/metrics").text
    assert 'tgi_replica_serving{replica="1"} 1' in labelled and "tgi_replica_up 2" in labelled
    assert fleet.stop() == 0, fleet.log()


def expect_answers(launcher, work, expected, order):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: answer_of(launcher, *work[i]), order))
    for i, answer in zip(order, answers):
        assert answer == expected[i], f"{work[i]}\n{json.dumps(answer)[:2000]}\n{json.dumps(expected[i])[:2000]}"


def live_through_kills(fleet, work, expected):
    """Kills each shard a few times while the work is done again and again; returns how often it was."""
    rng = random.Random(int(os.environ.get("COXSWAIN_FLEET_SEED", "7")))
    stop = threading.Event()
    unwell = []

    def ask_health():
        while not stop.is_set():
            if fleet.get("/health").status_code != 200:
                unwell.append(fleet.metrics()["tgi_replica_up"])
            time.sleep(0.02)

    def kill():
        order = [0, 1] * KILLS_OF_EACH
        rng.shuffle(order)
        for n_before, replica in enumerate(order):
            time.sleep(rng.random() * 0.4)
            os.kill(shards(fleet)[replica], signal.SIGKILL)
            back = {"tgi_replica_up": 2, "tgi_replica_restarts_total": n_before + 1}
            wait_until(lambda: back.items() <= fleet.metrics().items(), 60, fleet.log)

    watcher, killer = threading.Thread(target=ask_health), threading.Thread(target=kill)
    watcher.start()
    killer.start()
    try:
        rounds = 0
        while killer.is_alive() or rounds == 0:
            expect_answers(fleet, work, expected, rng.sample(range(len(work)), len(work)))
            rounds += 1
    finally:
        stop.set()
        killer.join()
        watcher.join()
    assert unwell == []
    return rounds


def test_streams_survive_kills(fleet):
    """Every answer is that of an undisturbed run, whichever shard dies when; /health stays well while the other one serves."""
    work = bodies()
    expected = [answer_of(fleet, path, body) for path, body in work]
    rounds = live_through_kills(fleet, work, expected)
    m = wait_idle(fleet)
    assert m["tgi_replica_restarts_total"] == 2 * KILLS_OF_EACH
    assert m["tgi_request_resumes_total"] > 0
    shown = seen(fleet, "/fleet").json()
    assert shown["restarts"] == 2 * KILLS_OF_EACH and shown["resumed"] == m["tgi_request_resumes_total"]
    assert [r["restarts"] for r in shown["replicas"]] == [KILLS_OF_EACH] * 2
    assert shown["requests"] == shown["waiting"] == 0 and all(r["requests"] == r["blocks"]["leased"] == 0 for r in shown["replicas"])
    assert m["tgi_request_success"] == m["tgi_request_count"] == len(work) * (rounds + 1)
    assert fleet.stop() == 0, fleet.log()


def test_a_prompt_is_computed_in_one_replica_and_its_answer_in_another(launch, server):
    """All answers are those of a single replica."""
    fleet = launch(*ROLES).wait_ready()
    work = long_bodies()
    expected = [answer_of(server, path, body) for path, body in work]
    for _ in range(3):
        expect_answers(fleet, work, expected, range(len(work)))
    m = wait_idle(fleet)
    n_apart = 3 * sum("n" not in body for _, body in work)
    assert m["tgi_kv_handovers_total"] + m["tgi_kv_handovers_recomputed_total"] == n_apart
    assert m["tgi_kv_handovers_recomputed_total"] == 0 and m["tgi_kv_handover_bytes_total"] > 0
    assert m["tgi_kv_handover_duration_count"] == n_apart
    shown = seen(fleet, "/fleet").json()
    assert shown["handovers"]["moved"] == n_apart and shown["handovers"]["running"] == 0
    assert shown["handovers"]["transport"] == "memory"
    prefill, decode = shown["replicas"]
    assert (prefill["role"], decode["role"]) == ("prefill", "decode")
    # The first token of each; a probe of an idle replica is one token, too.
    assert n_apart <= prefill["generated_tokens"] < 2 * n_apart < decode["generated_tokens"]
    assert fleet.stop() == 0, fleet.log()


def test_blocks_pass_while_a_prompt_is_computed(launch, server):
    """Of prompts in many chunks some blocks pass before the first token; answers are those of a single replica."""
    fleet = launch(*ROLES, "--max-batch-prefill-tokens", "64", "--kv-handover-bytes-max", "262144").wait_ready()
    words = " ".join(f"word {n} of a long story," for n in range(60))
    work = [("/generate", {"inputs": f"{n}: {words}", "parameters": {"max_new_tokens": 12}}) for n in range(4)]
    expected = [answer_of(server, path, body) for path, body in work]
    expect_answers(fleet, work, expected, range(len(work)))
    m = wait_idle(fleet)
    handovers = seen(fleet, "/fleet").json()["handovers"]
    assert handovers["moved"] == len(work) and handovers["recomputed"] == 0, handovers
    assert 0 < handovers["bytes_ahead"] < handovers["bytes"] == m["tgi_kv_handover_bytes_total"], handovers
    assert fleet.stop() == 0, fleet.log()


@pytest.mark.parametrize("how", ["auto", "off"])
def test_how_prompts_are_shared_out_changes_no_answer(launch, server, how):
    fleet = launch(*ROLES, "--disaggregation", how).wait_ready()
    work = long_bodies()
    expected = [answer_of(server, path, body) for path, body in work]
    for _ in range(3):
        expect_answers(fleet, work, expected, range(len(work)))
    m = wait_idle(fleet)
    shown = seen(fleet, "/fleet").json()
    n_apart = m["tgi_kv_handovers_total"] + m["tgi_kv_handovers_recomputed_total"]
    if how == "off":
        assert n_apart == shown["handovers"]["together"] == 0
        assert [r["role"] for r in shown["replicas"]] == ["mixed", "mixed"]
    else:
        assert n_apart + shown["handovers"]["together"] == 3 * sum("n" not in body for _, body in work)
        assert shown["handovers"]["together"] > 0, "nothing is known of steps at first"
    assert fleet.stop() == 0, fleet.log()


def test_streams_survive_kills_of_either_role(launch, server):
    fleet = launch(*ROLES).wait_ready()
    work = long_bodies()
    expected = [answer_of(server, path, body) for path, body in work]
    rounds = live_through_kills(fleet, work, expected)
    m = wait_idle(fleet)
    assert m["tgi_replica_restarts_total"] == 2 * KILLS_OF_EACH
    assert m["tgi_kv_handovers_total"] > 0 and m["tgi_request_resumes_total"] > 0
    assert m["tgi_request_success"] == m["tgi_request_count"] == len(work) * rounds
    shown = seen(fleet, "/fleet").json()
    assert [r["role"] for r in shown["replicas"]] == ["prefill", "decode"]
    assert shown["requests"] == shown["handovers"]["running"] == 0
    assert fleet.stop() == 0, fleet.log()


def test_roles_change_while_streams_run(launch, server):
    """Each replica takes each role, and is taken away and brought back; every answer is that of a single replica."""
    fleet = launch("--replicas", "2", "--threads", "1", "--admin-listen", "127.0.0.1:0").wait_ready()
    work = long_bodies()
    expected = [answer_of(server, path, body) for path, body in work]
    both = dict(old_stub_indices=[0], new_stub_indices=[1]), dict(old_stub_indices=[1], new_stub_indices=[0])
    changes = [("TriggerPrefillUp", both[0]), ("TriggerNormalUp", both[0]), ("TriggerDecodeUp", both[1]), ("TriggerNormalUp", both[1]),
               ("TriggerScaleDown", dict(stub_indices=[0])), ("TriggerNormalUp", both[1]),
               ("TriggerNoramalDown", dict(stub_indices=[1])), ("TriggerDecodeUp", both[0]), ("TriggerNormalUp", both[0])]
    refused = []

    def change():
        for kind, data in changes:
            time.sleep(0.2)
            answer = command(fleet, kind, **data)
            if answer.status_code != 200:
                refused.append((kind, data, answer.text))

    changer = threading.Thread(target=change)
    changer.start()
    rounds = 0
    while changer.is_alive() or rounds == 0:
        expect_answers(fleet, work, expected, range(len(work)))
        rounds += 1
    changer.join()
    assert refused == []
    m = wait_idle(fleet)
    assert m["tgi_request_success"] == m["tgi_request_count"] == len(work) * rounds
    shown = seen(fleet, "/fleet").json()
    assert [(r["role"], r["admission"], r["drain"]) for r in shown["replicas"]] == [("mixed", "open", "no")] * 2
    assert all(r["requests"] == r["blocks"]["leased"] == 0 for r in shown["replicas"])
    assert fleet.out().count("a replica has another role") == 6
    assert fleet.stop() == 0, fleet.log()


def test_the_fleet_as_a_page(fleet):
    port = admin(fleet, "").rsplit(":", 1)[1]
    page = subprocess.run([BIN / "coxswain", "fleet", "top", f"localhost:{port}"], capture_output=True, text=True, timeout=60)
    assert page.returncode == 0 and page.stdout.startswith("2 of 2 replicas serving; 0 requests"), page
    rows = [line.split() for line in page.stdout.splitlines()[3:]]
    assert [row[:5] for row in rows[1:]] == [[str(i), "mixed", "serving", "open", "no"] for i in (0, 1)]
    assert fleet.stop() == 0, fleet.log()
    gone = subprocess.run([BIN / "coxswain", "fleet", "top", f"localhost:{port}"], capture_output=True, text=True, timeout=60)
    assert gone.returncode == 1 and f"127.0.0.1:{port}: Connection refused" in gone.stderr


def test_an_admin_socket_of_the_user_alone(launch, tmp_path):
    path = tmp_path / "admin"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))  # of a server that was killed
    left.close()
    fleet = launch("--replicas", "2", "--threads", "1", "--admin-listen", f"unix:{path}").wait_ready()
    assert f"the replicas are shown at=unix:{path}" in fleet.out()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    status, document = over(path, "GET", "/fleet")
    assert status == 200 and len(document["replicas"]) == 2
    status, document = over(path, "POST", "/modify_cluster_state", {"type": "TriggerMutation", "data": {"stub_indices": [7]}})
    assert (status, document["error_type"]) == (422, "validation")
    page = subprocess.run([BIN / "coxswain", "fleet", "top", f"unix:{path}"], capture_output=True, text=True, timeout=60)
    assert page.returncode == 0 and page.stdout.startswith("2 of 2 replicas serving; 0 requests"), page
    code, _, cause, _ = failed_start(launch("--admin-listen", f"unix:{path}"))
    assert code == 1 and f"another server listens at {path}" in cause
    assert fleet.stop() == 0, fleet.log()
    assert not path.exists()


def test_changes_that_cannot_be_are_refused(fleet):
    nobody = command(fleet, "TriggerMutation", stub_indices=[0, 1])
    assert nobody.status_code == 422 and "no replica that computes prompts" in nobody.json()["error"]
    answer = command(fleet, "TriggerScaleDown", stub_indices=[0, 1])
    assert (answer.status_code, answer.json()["error_type"]) == (422, "validation"), answer.text
    assert command(fleet, "TriggerMutation", stub_indices=[2]).status_code == 422
    foreign = requests.post(admin(fleet, "/modify_cluster_state"), data='{"type":"TriggerScaleDown","data":{"stub_indices":[0]}}',
                            headers={"Content-Type": "text/plain"}, timeout=60)
    assert foreign.status_code == 415
    assert [r["admission"] for r in seen(fleet, "/fleet").json()["replicas"]] == ["open", "open"]
    assert fleet.stop() == 0, fleet.log()


@pytest.mark.parametrize("arguments, environment, says", [
    (["--replicas", "2", "--roles", "prefill=2"], {}, "no replica that generates"),
    (["--replicas", "2", "--roles", "decode=2"], {}, "no replica that computes prompts"),
    (["--roles", "prefill=1"], {}, "`replicas` is 1"),
    ([*ROLES, "--kv-handover-bytes-max", "1000"], {}, "`kv_handover_bytes_max`"),
    (ROLES, {"PREFIX_CACHING": "false"}, "`PREFIX_CACHING`"),
    (ROLES, {"COXSWAIN_SHARD_PROTOCOL": "generate.v3"}, "speaks generate.v3"),
])
def test_roles_that_cannot_be_are_refused(launch, arguments, environment, says):
    code, variant, cause, _ = failed_start(launch(*arguments, environment=environment))
    assert code == 2 and variant == "ArgumentValidation" and says in cause and "`roles`" in cause
