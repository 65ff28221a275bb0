"""Several API keys, as the file of --api-keys-path has them."""

import json
import re

import requests

from demo import MESSAGES, PROMPT
from launcher import failed_start
from process_tree import wait_until

ALICE = {"name": "alice", "key": "sk-alice-1", "requests_per_minute": 3}
BOB = {"name": "bob", "key": "sk-bob-2", "concurrent_requests": 4, "cache_salt": "bob's"}
SMALL = {"inputs": PROMPT, "parameters": {"max_new_tokens": 2}}


def bearer(entry):
    return {"Authorization": f"Bearer {entry['key']}"}


def seen_by_admin(launcher):
    port = re.search(r"the replicas are shown at=127.0.0.1:(\d+)", launcher.out())[1]
    keys = requests.get(f"http://127.0.0.1:{port}/admin/keys", timeout=60).json()["keys"]
    return {entry["name"]: entry for entry in keys}


def test_keys_have_limits_names_and_are_read_again(launch, tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(json.dumps([ALICE, BOB]))
    launcher = launch("--api-keys-path", path, "--admin-listen", "127.0.0.1:0", environment={"API_KEY": "own"}).wait_ready()
    assert launcher.post("/generate", SMALL).status_code == 401
    assert launcher.post("/generate", SMALL, headers={"x-api-key": "own"}).status_code == 200
    for _ in range(3):
        assert launcher.post("/generate", SMALL, headers=bearer(ALICE)).status_code == 200
    refused = launcher.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 2}, headers=bearer(ALICE))
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert 1 <= int(refused.headers["retry-after"]) <= 20
    assert refused.headers["x-ratelimit-limit-requests"] == "3"
    native = launcher.post("/generate", SMALL, headers=bearer(ALICE))
    assert (native.status_code, native.json()["error_type"]) == (429, "overloaded")
    answer = launcher.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 2}, headers=bearer(BOB))
    assert answer.status_code == 200 and answer.headers["x-ratelimit-limit-requests"] == "4"
    seen = seen_by_admin(launcher)
    assert list(seen) == ["api-key", "alice", "bob"]
    assert (seen["alice"]["accepted"], seen["alice"]["refused"], seen["alice"]["running"]) == (3, 2, 0)
    wait_until(lambda: "key=alice" in launcher.out() and "key=bob" in launcher.out(), 30, launcher.log)

    # A file that is broken changes nothing, and one that is right changes who may ask.
    path.write_text(json.dumps([ALICE | {"rate": 1}]))
    wait_until(lambda: "the old one holds" in launcher.out(), 30, launcher.log)
    assert "`[0].rate` is no member of a key" in launcher.out()
    assert launcher.post("/generate", SMALL, headers=bearer(BOB)).status_code == 200
    carol = {"name": "carol", "key": "sk-carol-3"}
    path.write_text(json.dumps([ALICE, carol]))
    wait_until(lambda: launcher.post("/generate", SMALL, headers=bearer(carol)).status_code == 200, 30, launcher.log)
    assert launcher.post("/generate", SMALL, headers=bearer(BOB)).status_code == 401
    assert launcher.post("/generate", SMALL, headers=bearer(ALICE)).status_code == 429  # its count went on
    for secret in ("sk-alice-1", "sk-bob-2", "sk-carol-3", "own"):
        assert not re.search(rf"\b{secret}\b", launcher.out().replace("--", "")), secret
    assert launcher.stop() == 0


def test_caches_are_kept_apart_by_the_salts_of_keys(launch, tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(json.dumps([{"name": "a", "key": "ka", "cache_salt": "one"}, {"name": "b", "key": "kb"},
                                {"name": "c", "key": "kc", "cache_salt": "one"}]))
    launcher = launch("--api-keys-path", path).wait_ready()

    def cached(key, **more):
        body = {"prompt": PROMPT * 20, "max_tokens": 1, **more}
        usage = launcher.post("/v1/completions", body, headers={"x-api-key": key}).json()["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"]

    assert cached("ka") == 0
    assert cached("kb") == 0
    assert cached("kc") > 16
    assert cached("kb") > 16
    assert cached("kb", cache_salt="one") == 0
    assert launcher.stop() == 0


def test_a_wrong_file_ends_the_start(launch, tmp_path):
    path = tmp_path / "keys.json"
    launcher = launch("--api-keys-path", path)
    assert launcher.wait_exit() == 2
    assert f"`--api-keys-path` {path} cannot be read: No such file or directory" in launcher.err()
    path.write_text(json.dumps([ALICE, BOB | {"key": ALICE["key"]}]))
    launcher = launch("--api-keys-path", path)
    code, variant, cause, _ = failed_start(launcher)
    assert (code, variant, cause) == (2, "ArgumentValidation", f"`--api-keys-path`: {path}: `[1].key` is that of `[0]`")
    assert "shard" not in launcher.out()  # no model was loaded for it
    assert ALICE["key"] not in launcher.err() + launcher.out()
