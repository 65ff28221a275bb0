"""What whoever operates the server can see and do below /admin of --admin-listen."""

import re
import threading

import pytest
import requests

from demo import CONTEXT, PROMPT
from process_tree import wait_until

LONG = {"prompt": [PROMPT] * 4, "n": 4, "max_tokens": CONTEXT - 200, "ignore_eos": True}
SMALL = {"inputs": PROMPT, "parameters": {"max_new_tokens": 2}}


class Admin:
    def __init__(self, launcher):
        port = re.search(r"the replicas are shown at=127.0.0.1:(\d+)", launcher.out())[1]
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path):
        return requests.get(self.url + path, timeout=60).json()

    def ask(self, method, path, **more):
        return requests.request(method, self.url + path, timeout=60, **more)


@pytest.fixture(scope="module")
def launcher():
    from launcher import Launcher
    launcher = Launcher(("--admin-listen", "127.0.0.1:0", "--kv-host-bytes-max", "1048576"), environment={"API_KEY": "secret"}).start()
    try:
        yield launcher.wait_ready()
        assert launcher.stop() == 0, launcher.log()
    finally:
        launcher.dispose()


@pytest.fixture(scope="module")
def admin(launcher):
    return Admin(launcher)


def ask(launcher, body, **headers):
    return launcher.post("/generate", body, headers={"x-api-key": "secret", **headers})


def test_requests_are_listed_and_cancelled(launcher, admin):
    assert admin.get("/admin/requests") == {"requests": []}
    with requests.post(launcher.url + "/v1/completions", json={**LONG, "stream": True}, headers={"x-api-key": "secret", "x-request-id": "mine"},
                       stream=True, timeout=60) as answer:
        lines = answer.iter_lines()
        next(lines)
        [seen] = admin.get("/admin/requests")["requests"]
        assert (seen["id"], seen["route"], seen["key"], seen["state"]) == ("mine", "/v1/completions", "api-key", "running")
        assert seen["answer_id"].startswith("cmpl-") and seen["replicas"] == [0] and seen["age_ms"] >= 0
        assert seen["prompt_tokens"] > 4 and seen["generated_tokens"] > 0
        assert PROMPT not in str(seen) and "secret" not in str(seen)
        cancelled = admin.ask("DELETE", "/admin/requests/mine")
        assert (cancelled.status_code, cancelled.json()) == (200, {"id": "mine", "cancelled": True})
        assert b"the request was cancelled" in b"".join(lines)
    gone = admin.ask("DELETE", "/admin/requests/mine")
    assert (gone.status_code, gone.json()) == (404, {"error": "no running request `mine`", "error_type": "not_found"})
    wait_until(lambda: admin.get("/admin/requests") == {"requests": []}, 30, launcher.log)


def test_memory_is_told(launcher, admin):
    [replica] = admin.get("/admin/memory")["replicas"]
    assert replica["plan"]["weight_bytes"] > 0 and replica["plan"]["kv_bytes"] > 0
    assert sum(part["bytes"] for part in replica["plan"]["weights"]) <= replica["plan"]["weight_bytes"]
    blocks = replica["kv"]["blocks"]
    assert blocks["total"] == sum(blocks[part] for part in ("free", "cached", "leased", "retiring")) > 0
    assert sum(g["blocks"] for g in replica["kv"]["groups"]) >= blocks["total"]
    assert replica["tiers"]["memory"]["bytes_max"] == 1048576 and replica["tiers"]["files"]["bytes_max"] == 0


def test_the_log_level_is_read_and_set(launcher, admin):
    before = admin.get("/admin/log-level")
    assert (before["level"], before["target"]) == ("info", "text_generation_router")
    assert before["not_reached"] == ["text_generation_launcher", "text-generation-server"]
    assert ask(launcher, SMALL, **{"x-request-id": "told"}).status_code == 200
    wait_until(lambda: "request_id=told" in launcher.out(), 30, launcher.log)
    changed = admin.ask("PUT", "/admin/log-level", json={"log_level": "debug,text_generation_router=error"})
    assert changed.status_code == 200 and changed.json() == {**before, "log_level": "debug,text_generation_router=error", "level": "error"}
    assert ask(launcher, SMALL, **{"x-request-id": "not-told"}).status_code == 200
    assert admin.get("/admin/log-level")["level"] == "error"
    assert admin.ask("PUT", "/admin/log-level", json={"log_level": "info"}).json()["level"] == "info"
    assert ask(launcher, SMALL, **{"x-request-id": "told-again"}).status_code == 200
    wait_until(lambda: "request_id=told-again" in launcher.out(), 30, launcher.log)
    assert "request_id=not-told" not in launcher.out()


def test_wrong_input_is_refused_by_name(admin):
    wrong = admin.ask("PUT", "/admin/log-level", json={"log_level": "inof"})
    assert (wrong.status_code, wrong.json()["error_type"]) == (422, "validation")
    assert "`LOG_LEVEL`" in wrong.json()["error"] and "`inof` has no effect" in wrong.json()["error"]
    assert "`level` is no member" in admin.ask("PUT", "/admin/log-level", json={"level": 1}).json()["error"]
    # What a browser sends for a foreign page is not looked at.
    for method, path in (("PUT", "/admin/log-level"), ("POST", "/admin/drain"), ("POST", "/modify_cluster_state")):
        plain = admin.ask(method, path, data=b"{}", headers={"content-type": "text/plain"})
        assert (plain.status_code, plain.json()["error_type"]) == (415, "unsupported_media_type")
    assert admin.ask("POST", "/admin/log-level", json={}).status_code == 405
    assert admin.ask("GET", "/admin").status_code == 404


def test_the_other_port_has_none_of_it(launcher):
    for path in ("/admin/requests", "/admin/memory", "/admin/log-level", "/admin/keys"):
        assert launcher.get(path, headers={"x-api-key": "secret"}).status_code == 404


def test_a_drain_ends_all_in_order(launch):
    launcher = launch("--admin-listen", "127.0.0.1:0").wait_ready()
    admin = Admin(launcher)
    got = []
    asking = threading.Thread(target=lambda: got.append(launcher.post("/v1/completions", LONG)))
    asking.start()
    wait_until(lambda: any(r["state"] == "running" for r in admin.get("/admin/requests")["requests"]), 30, launcher.log)
    answer = admin.ask("POST", "/admin/drain", json={})
    assert (answer.status_code, answer.json()) == (202, {"draining": True, "requests": 1})
    assert launcher.wait_exit() == 0
    launcher.check_nothing_left()
    asking.join()
    assert got[0].status_code == 200, got[0].text  # what runs goes on to its end
