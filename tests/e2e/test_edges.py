"""What a demanding user notices: figures that add up, lines in the log, limits that are named."""

import json
import os
import re

import pytest

from demo import MESSAGES, PROMPT
from launcher import Launcher
from process_tree import stop_process, wait_until

LONG = {"inputs": PROMPT, "parameters": {"max_new_tokens": 8}}


class TestTokenHeaders:
    """x-prompt-tokens counts a prompt once, whatever n is."""

    @pytest.mark.parametrize(("path", "body"), [
        ("/v1/completions", {"prompt": "Once", "n": 2}),
        ("/v1/completions", {"prompt": ["Once", "The dog"], "n": 2}),
        ("/v1/chat/completions", {"messages": MESSAGES, "n": 3}),
    ], ids=["one prompt", "two prompts", "chat"])
    def test_they_equal_usage(self, server, path, body):
        response = server.post(path, {**body, "max_tokens": 5, "ignore_eos": True})
        usage = response.json()["usage"]
        assert response.headers["x-prompt-tokens"] == str(usage["prompt_tokens"])
        assert response.headers["x-generated-tokens"] == str(usage["completion_tokens"])

    def test_best_of_gives_those_of_the_chosen_one(self, server):
        response = server.post("/generate", {"inputs": "Once", "parameters": {"best_of": 2, "do_sample": True, "max_new_tokens": 5, "details": True}})
        assert response.headers["x-generated-tokens"] == str(response.json()["details"]["generated_tokens"])


class TestArrays:
    """No array of a request is without a limit."""

    @pytest.mark.parametrize(("path", "name"), [
        ("/generate", "stop"), ("/v1/chat/completions", "stop"), ("/v1/completions", "unknown"), ("/v1/chat/completions", "documents")])
    def test_too_many_elements(self, server, path, name):
        body = {name: [1] * 10_001}
        if path == "/generate":
            body = {"inputs": "x", "parameters": body}
        response = server.post(path, body)
        assert response.status_code == (422 if path == "/generate" else 400)
        error = response.json()["error"]
        text = error if path == "/generate" else error["message"]
        assert text.startswith(f"Input validation error: `{name}` must have at most 10000 elements. Given: more at line 1 column ")
        assert path == "/generate" or error["param"] == name

    def test_a_prompt_may_be_longer(self, server):
        message = server.post("/v1/completions", {"prompt": [5] * 10_001}).json()["error"]["message"]
        assert "Given: 10001 tokens in `prompt` (" in message

    def test_messages_have_their_own(self, server):
        response = server.post("/v1/chat/completions", {"messages": MESSAGES * 10_001})
        assert response.json()["error"]["message"] == "Input validation error: `messages` must have at most 1024 entries. Given: 10001"


FIELDS = r"total_time=\S+s validation_time=\S+s queue_time=\S+s inference_time=\S+s time_per_token=\S+s"


class TestLog:
    def line(self, server, request_id):
        pattern = re.compile(rf"^.*{request_id}.*$", re.MULTILINE)
        return wait_until(lambda: pattern.search(server.out()), 10, "a line of the request").group(0)

    def test_a_line_for_each_request(self, server):
        server.post("/generate", LONG, headers={"x-request-id": "log-1"})
        assert re.search(rf" INFO text_generation_router: Success request_id=log-1 path=/generate {FIELDS} seed=None "
                         r"prompt_tokens=\d+ generated_tokens=8$", self.line(server, "log-1"))

    def test_of_streams_too(self, server):
        body = {"messages": MESSAGES, "max_tokens": 3, "stream": True, "seed": 42}
        server.post("/v1/chat/completions", body, headers={"x-request-id": "log-2"})
        assert re.search(rf"Success request_id=log-2 path=/v1/chat/completions {FIELDS} seed=42 prompt_tokens=\d+ generated_tokens=3$",
                         self.line(server, "log-2"))

    def test_a_refusal_says_what_the_client_got(self, launch):
        launcher = launch().wait_ready()
        launcher.post("/generate", {"inputs": ""}, headers={"x-request-id": "log-3"})
        assert self.line(launcher, "log-3").endswith(
            " WARN text_generation_router: Input validation error: `inputs` cannot be empty "
            "request_id=log-3 path=/generate error_type=validation")

    def test_as_json(self, launch):
        launcher = launch("--json-output")
        connected = re.compile(r'"message":"Connected","url":"([^"]+)"')
        launcher.url = wait_until(lambda: connected.search(launcher.out()), 60, launcher.log)[1]
        launcher.post("/generate", LONG, headers={"x-request-id": "log-4"})
        record = json.loads(self.line(launcher, "log-4"))
        assert record["message"] == "Success" and record["level"] == "INFO" and record["generated_tokens"] == 8
        assert {"total_time", "validation_time", "queue_time", "inference_time", "time_per_token", "seed"} < set(record)


def test_env_logs_what_it_runs_on(launch):
    launcher = launch("--env", model="/nonexistent")
    assert launcher.wait_exit() == 3
    facts = dict(re.findall(r'Runtime environment fact="?([^"=]+?)"? is="?([^"\n]+)', launcher.out()))
    assert {"Version", "Compiler", "Kernel", "CPUs", "Memory"} <= facts.keys(), launcher.log()


@pytest.mark.parametrize("value", ["1", "true"])
def test_colour_is_for_every_line(launch, value):
    launcher = launch("--env", model="/nonexistent", environment={"LOG_COLORIZE": value})
    launcher.wait_exit()
    assert all("\x1b[32mINFO\x1b[0m" in line for line in launcher.out().splitlines()) and launcher.out()


def test_a_shard_that_stands_still_is_replaced(launch):
    launcher = launch().wait_ready()
    before = launcher.shard_pid()
    expected = launcher.post("/generate", LONG).json()
    wait_until(lambda: launcher.metrics()["tgi_batch_current_size"] == 0, 10, "nothing runs")
    stop_process(before)
    response = launcher.post("/generate", LONG)
    assert (response.status_code, response.json()) == (200, expected)

    def another():
        now = launcher.shard_pid()
        return now is not None and now != before and launcher.is_healthy()

    wait_until(another, 60, launcher.log)
    assert launcher.post("/generate", LONG).json() == expected
    assert launcher.metrics()["tgi_request_resumes_total"] >= 1
    assert launcher.stop() == 0


class TestOptionsThatLeaveLittle:
    def test_a_cache_smaller_than_a_block_serves_what_it_promises(self, launch):
        launcher = launch("--max-batch-total-tokens", "10").wait_ready()
        assert launcher.get("/info").json()["max_total_tokens"] == 10
        response = launcher.post("/generate", {"inputs": "Once", "parameters": {"max_new_tokens": 9, "details": True}})
        assert response.status_code == 200, response.text

    def test_one_token_in_all_is_refused(self, launch):
        launcher = launch("--max-total-tokens", "1")
        assert launcher.wait_exit() == 2
        assert "`max_total_tokens` must be >= 2" in launcher.err()

    def test_the_cure_names_the_option_that_was_given(self, launch):
        launcher = launch("--kv-cache-bytes-max", "1")
        assert launcher.wait_exit() == 1
        assert launcher.err().endswith("\nRaise --kv-cache-bytes-max or lower --max-total-tokens.\n"), launcher.err()

    def test_sharded(self, launch):
        launcher = launch("--sharded", "true")
        assert launcher.wait_exit() == 2
        assert launcher.err().startswith("error: ") and "not supported yet: one shard holds the whole model" in launcher.err()


def test_a_log_level_that_is_none(launch):
    launcher = launch(model="/nonexistent", environment={"LOG_LEVEL": "Loud"})
    launcher.wait_exit()
    assert "`LOG_LEVEL` must be trace, debug, info, warn, error, off or a list of TARGET=LEVEL; `loud` has no effect" in launcher.out()


def test_closed_standard_streams():
    """No socket or file gets their numbers, so no log line ends in one."""
    launcher = Launcher()
    launcher.command = ["bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash", *launcher.command]
    try:
        launcher.start()
        wait_until(lambda: launcher.router_pid() and launcher.shard_pid(), 60, "both children")
        for fd in (0, 1, 2):
            assert os.readlink(f"/proc/{launcher.process.pid}/fd/{fd}") == "/dev/null"
        assert launcher.stop() == 0
    finally:
        launcher.dispose()
