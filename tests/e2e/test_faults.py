"""Parts that die, clients that leave, and orderly ends. Every request ends in one answer or one clear error."""

import concurrent.futures
import json
import os
import random
import re
import shutil
import signal
import socket
import threading
import time

import pytest
import requests

from demo import MODEL, PROMPT
from process_tree import stop_process, wait_until
from sse import Stream

LONG = {"prompt": PROMPT, "max_tokens": 1000, "temperature": 0, "ignore_eos": True}
LOST = "Request failed during generation: the shard was lost"


@pytest.fixture
def own(launch):
    return launch().wait_ready()


def continue_process(pid):
    os.kill(pid, signal.SIGCONT)


def freeze_within_stream(launcher, body=None, path="/v1/completions"):
    """A stream whose first event has been read and whose shard stands still before its end."""
    shard = launcher.shard_pid()
    for _ in range(20):
        stream = Stream(launcher.url, path, body or {**LONG, "stream": True})
        events = stream.events()
        next(events)
        stop_process(shard)
        # What the router still publishes of finished steps comes to an end; then the gauge is right.
        if settled(launcher, "tgi_kv_blocks_leased") > 0:
            return stream, events
        continue_process(shard)
        stream.close()
    raise AssertionError("the stream always ended before the shard could be stopped")


def settled(launcher, name):
    """Value of a gauge once no step has ended between two looks."""
    def look():
        values = launcher.metrics()
        return values[name], values.get('tgi_batch_inference_success{method="decode"}')

    last = look()
    for _ in range(200):
        time.sleep(0.02)
        now = look()
        if now == last:
            break
        last = now
    return last[0]


def wait_idle(launcher):
    """All blocks returned, nothing running."""
    def idle():
        m = launcher.metrics()
        return m["tgi_kv_blocks_leased"] == 0 and m["tgi_kv_blocks_retiring"] == 0 and m["tgi_batch_current_size"] == 0 and m

    m = wait_until(idle, 20, lambda: f"idle: {launcher.metrics()}")
    assert m["tgi_kv_blocks_free"] + m["tgi_kv_blocks_cached"] == m["tgi_kv_blocks_total"]
    return m


def counted(metrics):
    """(requests, successes, {err: failures})"""
    failures = {name.split('"')[1]: value for name, value in metrics.items() if name.startswith("tgi_request_failure{")}
    return metrics["tgi_request_count"], metrics["tgi_request_success"], failures


def wait_conserved(launcher):
    """Every request counted once and ended once."""
    def conserved():
        n, success, failures = counted(launcher.metrics())
        return n == success + sum(failures.values())

    wait_until(conserved, 20, lambda: f"conserved: {counted(launcher.metrics())}")
    return counted(launcher.metrics())


def content_of(response):
    """Without ids, times and what depends on the cache."""
    return re.sub(r'"(id|created|cached_tokens)": ?("[^"]*"|[0-9]+)', "", response.text)


def generates(launcher):
    response = launcher.post("/generate", {"inputs": PROMPT, "parameters": {"max_new_tokens": 5}})
    return response.status_code == 200


class TestEnd:
    def test_drain(self, own):
        """SIGTERM lets a running stream end, takes nothing new, and exits 0."""
        expected = own.post("/v1/completions", LONG).json()["choices"][0]["text"]
        shard = own.shard_pid()
        stream, events = freeze_within_stream(own)
        with stream:
            own.terminate()
            wait_until(lambda: not accepts(own.url), 10, "the port to close")
            continue_process(shard)
            rest = list(events)
        assert rest[-1]["choices"][0]["finish_reason"] == "length"
        assert expected.endswith("".join(e["choices"][0]["text"] for e in rest))
        assert own.wait_exit() == 0
        own.check_nothing_left()

    def test_interrupt(self, own):
        own.process.send_signal(signal.SIGINT)
        assert own.wait_exit() == 0
        own.check_nothing_left()

    def test_grace_ends(self, launch):
        """What is not done by the end of the grace gets one error, and everything is over."""
        launcher = launch("--graceful-termination-timeout", "2").wait_ready()
        stream, events = freeze_within_stream(launcher)
        with stream:
            launcher.terminate()
            rest = list(events)
        errors = [e for e in rest if "error" in e]
        assert len(errors) == 1 and rest[-1] is errors[0], rest[-3:]
        assert errors[0]["error"]["message"] == "the server is shutting down"
        assert errors[0]["error"]["http_status_code"] == 503
        launcher.wait_exit()
        launcher.check_nothing_left()

    def test_signal_while_starting(self, launch):
        launcher = launch()
        wait_until(lambda: launcher.shard_pid() or launcher.process.poll() is not None, 30, launcher.log)
        launcher.terminate()
        assert launcher.wait_exit() == 0, launcher.log()
        launcher.check_nothing_left()

    def test_killed_launcher(self, own):
        """Children end by themselves, also within a stream."""
        with Stream(own.url, "/v1/completions", {**LONG, "stream": True}) as stream:
            next(stream.events())
            os.kill(own.process.pid, signal.SIGKILL)
            own.process.wait()
            wait_until(lambda: not own.processes(), 10, lambda: f"children gone: {own.processes()}")

    def test_killed_launcher_leaves_its_folder_to_the_next(self, own, launch):
        os.kill(own.process.pid, signal.SIGKILL)
        own.process.wait()
        wait_until(lambda: not own.processes(), 10, lambda: f"children gone: {own.processes()}")
        assert len(list(own.temporary.iterdir())) == 1
        after = launch(environment={"TMPDIR": str(own.temporary)}).wait_ready()
        assert len(list(own.temporary.iterdir())) == 1  # the new one alone
        assert after.stop() == 0
        assert list(own.temporary.iterdir()) == []


def accepts(url):
    try:
        requests.get(url + "/health", timeout=5)
        return True
    except requests.ConnectionError:
        return False


class TestFrozenShard:
    def test_the_deadline_is_answered_in_its_time(self, launch):
        """Before the shard counts as lost (6 s), while its health is asked for (from 3 s on)."""
        launcher = launch("--request-timeout-ms", "4500").wait_ready()
        shard = launcher.shard_pid()
        stream, events = freeze_within_stream(launcher)
        with stream:
            rest = list(events)
        errors = [e for e in rest if "error" in e]
        assert len(errors) == 1 and rest[-1] is errors[0], rest[-3:]
        assert errors[0]["error"]["type"] == "deadline", errors
        assert launcher.metrics()["tgi_kv_blocks_retiring"] > 0
        continue_process(shard)
        wait_idle(launcher)
        assert generates(launcher)
        assert launcher.shard_pid() == shard


def text_of(events):
    return "".join(e["choices"][0]["text"] for e in events)


class TestKilledShard:
    """What had begun goes on where it stood, with the next shard."""

    def test_within_a_stream(self, own):
        expected = own.post("/v1/completions", LONG).json()["choices"][0]["text"]
        before = own.shard_pid()
        stream, events = freeze_within_stream(own)
        with stream:
            os.kill(before, signal.SIGKILL)
            rest = list(events)
        assert expected.endswith(text_of(rest)), rest[-3:]
        assert rest[-1]["choices"][0]["finish_reason"] == "length"
        assert own.metrics()["tgi_request_resumes_total"] == 1
        self.comes_back(own, before)

    def test_within_a_native_stream(self, own):
        parameters = {"max_new_tokens": 900, "do_sample": True, "temperature": 1.0, "repetition_penalty": 1.3, "seed": 5}
        body = {"inputs": PROMPT, "parameters": parameters}
        with Stream(own.url, "/generate_stream", body) as stream:
            expected = list(stream.events())
        before = own.shard_pid()
        stream, events = freeze_within_stream(own, body, "/generate_stream")
        with stream:
            os.kill(before, signal.SIGKILL)
            rest = list(events)
        assert rest == expected[len(expected) - len(rest):]
        self.comes_back(own, before)

    def test_before_the_first_token(self, own):
        native = {"inputs": PROMPT, "parameters": {"max_new_tokens": 40}}
        bodies = [("/generate", native), ("/generate_stream", native),
                  ("/v1/completions", LONG), ("/v1/completions", {**LONG, "stream": True}), ("/v1/completions", {**LONG, "prompt": ["a", "b"]})]
        expected = [content_of(own.post(path, body)) for path, body in bodies]
        before = own.shard_pid()
        n_before = own.metrics()["tgi_request_count"]
        stop_process(before)
        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
            answers = [pool.submit(own.post, path, body) for path, body in bodies]
            wait_until(lambda: own.metrics()["tgi_request_count"] == n_before + len(bodies), 10, "all requests have arrived")
            wait_until(lambda: own.metrics()["tgi_batch_current_size"] > 0, 10, "the shard has been given one")
            os.kill(before, signal.SIGKILL)
            answers = [a.result() for a in answers]
        assert [a.status_code for a in answers] == [200] * len(bodies)
        assert [content_of(a) for a in answers] == expected
        n, success, failures = wait_conserved(own)
        assert success == n
        self.comes_back(own, before)

    def test_a_waiting_request_is_served_by_the_next_shard(self, launch):
        own = launch("--max-batch-size", "1").wait_ready()
        waiting = {"inputs": PROMPT, "parameters": {"max_new_tokens": 30}}
        expected = own.post("/generate", waiting).json()
        before = own.shard_pid()
        stream, events = freeze_within_stream(own)
        with stream, concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(own.post, "/generate", waiting)
            wait_until(lambda: own.metrics()["tgi_queue_size"] == 1, 10, "the second request waits")
            os.kill(before, signal.SIGKILL)
            assert list(events)[-1]["choices"][0]["finish_reason"] == "length"  # this one had started
            answer = answer.result()
        assert (answer.status_code, answer.json()) == (200, expected)
        n, success, _ = wait_conserved(own)
        assert success == n
        self.comes_back(own, before)

    def test_without_resumes_the_client_is_told(self, launch):
        """As text-generation-inference does it: one event, or the real status where nothing was sent yet."""
        own = launch("--request-resumes-max", "0", "--max-batch-size", "1").wait_ready()
        before = own.shard_pid()
        stream, events = freeze_within_stream(own)
        with stream:
            os.kill(before, signal.SIGKILL)
            rest = list(events)
        errors = [e for e in rest if "error" in e]
        assert len(errors) == 1 and rest[-1] is errors[0], rest[-3:]
        assert errors[0] == {"error": {"message": LOST, "type": "server_error", "param": None, "code": "generation_failed",
                                        "http_status_code": 500}}
        self.comes_back(own, before)

    def test_without_resumes_before_the_first_token(self, launch):
        own = launch("--request-resumes-max", "0").wait_ready()
        before = own.shard_pid()
        assert own.post("/generate", {"inputs": PROMPT}).status_code == 200  # behind the probe of the start
        wait_until(lambda: own.metrics()["tgi_batch_current_size"] == 0, 10, "nothing runs")
        stop_process(before)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(own.post, "/generate", {"inputs": PROMPT})
            wait_until(lambda: own.metrics()["tgi_batch_current_size"] > 0, 10, "the shard has been given it")
            os.kill(before, signal.SIGKILL)
            answer = answer.result()
        assert (answer.status_code, answer.json()) == (424, {"error": LOST, "error_type": "generation"})
        n, success, failures = wait_conserved(own)
        assert failures["generation"] == 1 and n == success + 1
        self.comes_back(own, before)

    def comes_back(self, launcher, before):
        wait_until(lambda: launcher.shard_pid() not in (None, before), 20, launcher.log)
        wait_until(launcher.is_healthy, 20, launcher.log)
        wait_until(lambda: generates(launcher), 20, launcher.log)
        m = wait_idle(launcher)
        assert m["tgi_replica_up"] == 1 and m["tgi_replica_restarts_total"] == 1
        assert launcher.stop() == 0, launcher.log()

    def test_health_while_it_is_away(self, own):
        """/health is 503 as long as no shard serves. The next shard is kept from starting to look at that."""
        stop = threading.Event()
        seen = []

        def hold_new_shards(first):
            while not stop.is_set():
                pid = own.shard_pid()
                if pid not in (None, first):
                    stop_process(pid)
                    seen.append(pid)
                    return

        first = own.shard_pid()
        holder = threading.Thread(target=hold_new_shards, args=(first,))
        holder.start()
        os.kill(first, signal.SIGKILL)
        try:
            holder.join(20)
            assert seen, own.log()
            if own.is_healthy():  # it was stopped too late to be away, or the router has not noticed yet
                wait_until(lambda: not own.is_healthy(), 10, own.log)
            response = own.get("/health")
            assert response.status_code == 503 and response.json() == {"error": "unhealthy", "error_type": "healthcheck"}
            assert own.get("/info").status_code == 200
            assert own.metrics()["tgi_replica_up"] == 0
        finally:
            stop.set()
            for pid in seen:
                continue_process(pid)
        wait_until(own.is_healthy, 20, own.log)
        wait_until(lambda: generates(own), 20, own.log)
        assert own.stop() == 0

    def test_new_requests_while_it_is_away(self, launch, tmp_path):
        model = tmp_path / "model"
        shutil.copytree(MODEL, model)
        own = launch(model=model).wait_ready()
        before = own.shard_pid()
        weights = model / "model.safetensors"
        weights.rename(model / "aside")  # the next shard cannot start without them
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: own.metrics()["tgi_replica_up"] == 0, 10, own.log)
        for path, body in (("/generate", {"inputs": PROMPT}), ("/v1/completions", LONG)):
            response = own.post(path, body)
            assert (response.status_code, response.json()["error_type"]) == (503, "unavailable")
            assert response.headers["retry-after"] == "1"
        (model / "aside").rename(weights)
        self.comes_back(own, before)

    def test_the_same_answer_afterwards(self, own):
        body = {"inputs": PROMPT, "parameters": {"max_new_tokens": 60, "details": True}}
        expected = own.post("/generate", body).json()
        before = own.shard_pid()
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: own.shard_pid() not in (None, before), 20, own.log)
        wait_until(lambda: generates(own), 20, own.log)
        assert own.post("/generate", body).json() == expected
        assert own.stop() == 0

    def test_a_crash_says_where(self, own):
        before = own.shard_pid()
        os.kill(before, signal.SIGSEGV)
        wait_until(lambda: own.shard_pid() not in (None, before), 20, own.log)
        assert re.search(r'fatal: SIGSEGV, called from.* from=shard-0', own.out()), own.log()
        assert re.search(r"text-generation-server.*\[0x[0-9a-f]+\].* from=shard-0", own.out()), own.log()
        assert 'how="signal 11 (Segmentation fault)"' in own.out()
        wait_until(lambda: generates(own), 20, own.log)
        assert own.stop() == 0

    def test_gives_up_after_five_deaths(self, own):
        """A shard that keeps dying ends the launcher with exit code 4 and a reason."""
        killed = set()
        deadline = time.monotonic() + 100
        while own.process.poll() is None:
            assert time.monotonic() < deadline, own.log()
            pid = own.shard_pid()
            if pid is not None and pid not in killed and own.is_healthy():
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        assert own.process.returncode == 4, own.log()
        assert own.err().splitlines()[0].startswith('Error: ShardFailed("'), own.log()
        own.check_nothing_left()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class TestKilledRouter:
    @pytest.mark.parametrize("chosen_by", ["user", "system"])
    def test_comes_back_on_its_port(self, launch, chosen_by):
        """Also if the port was left to the system: clients know only the first one."""
        port = free_port() if chosen_by == "user" else 0
        own = launch(port=port).wait_ready()
        before, shard = own.router_pid(), own.shard_pid()
        stream, events = freeze_within_stream(own)
        with stream:
            os.kill(before, signal.SIGKILL)
            continue_process(shard)
            with pytest.raises((EOFError, ConnectionError)):  # never looks like a whole answer
                list(events)
        wait_until(lambda: own.router_pid() not in (None, before), 20, own.log)
        wait_until(own.is_healthy, 20, own.log)
        assert own.shard_pid() == shard
        assert generates(own)
        wait_idle(own)
        assert own.stop() == 0, own.log()


class TestHealth:
    def test_an_idle_server_is_probed_while_somebody_asks(self, own):
        def n_steps():
            assert own.is_healthy()
            return own.metrics().get('tgi_batch_inference_success{method="prefill"}', 0)

        before = n_steps()
        wait_until(lambda: n_steps() >= before + 2, 20, own.log)
        assert own.metrics()["tgi_request_count"] == 0  # nobody's request
        assert own.stop() == 0


class TestStateDump:
    def test_every_process_says_how_it_is(self, own):
        assert generates(own)
        own.process.send_signal(signal.SIGUSR1)
        patterns = [r"text_generation_launcher: state service=shard-0 is=ready pid=\d+",
                    r"text_generation_launcher: state service=router is=ready pid=\d+",
                    r"text_generation_router: state queued=0 running=0 accepted=[1-9]\d* finished=[1-9]\d* .*blocks_free=\d+",
                    r"text_generation_launcher: state steps=\d+ sequences=\d+ plans_in_flight=\d+ .*from=shard-0"]
        wait_until(lambda: all(re.search(p, own.out()) for p in patterns), 20, own.log)
        assert generates(own)
        assert own.stop() == 0, own.log()


class TestFrozenShard:
    def test_metrics_and_info_still_answer(self, own):
        shard = own.shard_pid()
        stream, events = freeze_within_stream(own)
        with stream:
            assert own.get("/info").status_code == 200
            assert own.get("/metrics").status_code == 200
            assert own.post("/tokenize", {"inputs": PROMPT}).status_code == 200
            continue_process(shard)
            assert list(events)[-1]["choices"][0]["finish_reason"] == "length"
        assert own.stop() == 0


    def test_processes_that_stay_frozen_are_replaced(self, own):
        before = own.shard_pid(), own.router_pid()
        for pid in before:
            stop_process(pid)
        wait_until(lambda: own.shard_pid() not in (None, before[0]), 40, own.log)
        wait_until(lambda: own.router_pid() not in (None, before[1]), 40, own.log)
        wait_until(own.is_healthy, 20, own.log)
        assert generates(own)
        assert own.out().count("process stands still and is ended") == 2, own.log()
        assert own.stop() == 0


class TestDisconnect:
    @pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
    def test_blocks_come_back(self, own, stream):
        wait_idle(own)
        shard = own.shard_pid()
        if stream:
            running, _ = freeze_within_stream(own)
        else:
            stop_process(shard)
            running = Stream(own.url, "/v1/completions", LONG)
            wait_until(lambda: own.metrics()["tgi_request_count"] == 1, 10, "the request has arrived")
        running.close()
        continue_process(shard)
        wait_idle(own)
        n, success, failures = wait_conserved(own)
        assert failures == {**failures, "dropped": 1} and success == n - 1
        generated = own.metrics()["tgi_request_generated_tokens_sum"]
        assert generated < 1000 * n  # it did not run to its end for nobody
        assert generates(own)
        assert own.stop() == 0

    def test_half_of_many(self, own):
        """Neighbours of those that leave get the answer that they get alone."""
        body = {**LONG, "max_tokens": 300}
        expected = own.post("/v1/completions", body).json()["choices"][0]["text"]

        def leave(_):
            with Stream(own.url, "/v1/completions", {**body, "stream": True}) as s:
                events = s.events()
                for _ in range(5):
                    next(events)

        def stay(_):
            return own.post("/v1/completions", body).json()["choices"][0]["text"]

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            leaving = [pool.submit(leave, i) for i in range(8)]
            staying = [pool.submit(stay, i) for i in range(8)]
            assert [s.result() for s in staying] == [expected] * 8
            for left in leaving:
                left.result()
        wait_idle(own)
        n, success, failures = wait_conserved(own)
        assert n == 17 and success + failures["dropped"] == 17 and success >= 9
        assert own.stop() == 0


def test_conservation_after_a_random_mix(launch):
    """Good, bad, abandoned, too many, all at once: every request is counted once and ends once, and every block returns."""
    own = launch("--max-concurrent-requests", "6").wait_ready()
    rng = random.Random(20)
    statuses = []

    def good(r):
        return own.post("/generate", {"inputs": PROMPT * r.randint(1, 20), "parameters": {
            "max_new_tokens": r.randint(1, 60), "do_sample": True, "seed": r.randrange(1000)}}).status_code

    def streamed(r):
        with Stream(own.url, "/v1/completions", {**LONG, "stream": True, "max_tokens": r.randint(1, 60)}) as s:
            if s.read_head().status == 200:
                list(s.events())
            return s.status

    def several(r):
        return own.post("/v1/completions", {**LONG, "prompt": ["a", "b", "c"][:r.randint(1, 3)], "max_tokens": r.randint(1, 40)}).status_code

    def invalid(r):
        return own.post("/generate", {"inputs": PROMPT, "parameters": {"temperature": -1}}).status_code

    def broken(r):
        return requests.post(own.url + "/generate", data="{", headers={"Content-Type": "application/json"}, timeout=60).status_code

    def leaver(r):
        with Stream(own.url, "/v1/completions", {**LONG, "stream": True}) as s:
            if s.read_head().status == 200:
                for _ in zip(range(r.randint(0, 5)), s.events()):
                    pass
        return "left"

    def chat(r):
        return own.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": r.randint(1, 40), "n": r.randint(1, 2)}).status_code

    jobs = [(rng.choice([good, streamed, several, invalid, broken, leaver, chat]), random.Random(i)) for i in range(150)]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        statuses = list(pool.map(lambda job: job[0](job[1]), jobs))

    wait_idle(own)
    n, success, failures = wait_conserved(own)
    assert n == len(jobs)
    n_left = statuses.count("left")
    assert set(statuses) <= {200, 400, 422, 429, "left"}
    assert statuses.count(200) <= success <= statuses.count(200) + n_left
    assert failures["validation"] == statuses.count(400) + statuses.count(422)
    assert statuses.count(429) <= failures["overloaded"] <= statuses.count(429) + n_left
    assert failures["dropped"] <= n_left
    assert failures["generation"] == failures["incomplete"] == failures["unavailable"] == 0
    assert own.stop() == 0


def test_overload(launch):
    """One request more than allowed is refused at once with 429."""
    own = launch("--max-concurrent-requests", "2").wait_ready()
    shard = own.shard_pid()
    stop_process(shard)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        running = [pool.submit(own.post, "/v1/completions", {**LONG, "max_tokens": 5}) for _ in range(2)]
        wait_until(lambda: own.metrics()["tgi_request_count"] == 2, 10, "both have arrived")
        native = own.post("/generate", {"inputs": PROMPT})
        openai = own.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "stream": True})
        continue_process(shard)
        assert [r.result().status_code for r in running] == [200, 200]
    assert (native.status_code, native.json()) == (429, {"error": "Model is overloaded", "error_type": "overloaded"})
    assert native.headers["retry-after"] == "1"
    assert openai.status_code == 429 and openai.json()["error"]["code"] == "rate_limit_exceeded"
    assert generates(own)
    _, _, failures = wait_conserved(own)
    assert failures["overloaded"] == 2
    assert own.stop() == 0


def test_retry_after_is_as_long_as_the_last_ones_took(launch):
    own = launch("--max-concurrent-requests", "1").wait_ready()
    shard = own.shard_pid()

    def refusal(held_for):
        """That of a request beside one that takes `held_for` seconds or more."""
        stop_process(shard)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            before = own.metrics()["tgi_request_count"]
            running = pool.submit(own.post, "/v1/completions", {**LONG, "max_tokens": 5})
            wait_until(lambda: own.metrics()["tgi_request_count"] == before + 1, 10, "it has arrived")
            refused = own.post("/v1/completions", LONG)
            time.sleep(held_for)
            continue_process(shard)
            assert running.result().status_code == 200
        assert refused.status_code == 429
        return int(refused.headers["retry-after"])

    assert refusal(2.5) == 1  # nothing has ended on a full server yet
    assert 3 <= refusal(0) <= 60
    assert own.stop() == 0
