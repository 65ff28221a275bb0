"""Starts that succeed and starts that fail: what is printed, which exit code, and that nothing stays behind."""

import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import socket
import subprocess

import pytest
import requests

import launcher as launcher_module
from demo import CONTEXT, MODEL
from launcher import Launcher, failed_start
from process_tree import stop_process, wait_until


class TestSuccess:
    def test_block(self, server):
        out = server.out()
        rows = dict(re.findall(r"^  (model|compute|weights|memory|limits|url|try) +(.*)$", out, re.MULTILINE))
        assert rows["model"] == f"{MODEL} (qwen3)"
        assert re.fullmatch(r"bfloat16 on [\w.-]+, \d+ threads", rows["compute"]), rows["compute"]
        size = r"[\d.]+ [KM]?i?B"
        assert re.fullmatch(rf"layers bfloat16 {size}, float32 {size}; head bfloat16 {size}, float32 {size}", rows["weights"])
        assert re.fullmatch(r".* weights \+ .* KV cache \([\d,]+ tokens\) \+ .* buffers, .* kept free", rows["memory"])
        open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        assert rows["limits"] == (f"{CONTEXT - 1:,} prompt tokens, {CONTEXT:,} tokens in all, 128 requests at a time, "
                                  f"{min(10000, open_files - 128):,} connections in {open_files:,} open files")
        assert rows["url"] == f"{server.url} (no API key: whoever reaches this port can use it)"
        assert rows["try"].startswith(f"curl {server.url}/v1/chat/completions ")
        assert server.err() == ""

    def test_the_lines_before_it(self, server):
        """What is started with what, at once; where memory will go; then the words of TGI that harnesses wait for."""
        lines = server.out().splitlines()
        assert re.search(rf"INFO text_generation_launcher: Starting text-generation-launcher \S+ with=.*--model-id={re.escape(str(MODEL))} ",
                         lines[0]), lines[0]
        order = [r"INFO text_generation_launcher: Starting shard rank=0$",
                 r"INFO text_generation_launcher: Memory before the weights are read: .* available, weights at least 5\.63 MiB, .* a token\) ",
                 r"INFO text_generation_launcher: Shard ready in \d+\.\d{3}s rank=0$",
                 r"INFO text_generation_launcher: Starting Webserver$",
                 r"INFO text_generation_router: Connected url=",
                 r"^  url "]
        places = [[i for i, line in enumerate(lines) if re.search(pattern, line)] for pattern in order]
        assert all(len(place) == 1 for place in places), (places, server.log())
        assert places == sorted(places)

    def test_what_is_given_is_logged_without_keys(self, launch):
        launcher = launch("--api-key", "secret-key", model="no-such-model")
        assert launcher.wait_exit() == 3
        assert "--api-key=..." in launcher.out() and "secret-key" not in launcher.out()

    def test_options_of_a_file(self, launch, tmp_path):
        """The launcher hands them on, its children do not look for the file, and the environment beats it."""
        path = tmp_path / "serve.yaml"
        path.write_text(f"model-id: {MODEL}\nport: 1\nhostname: 127.0.0.1\nmax-total-tokens: 100\napi-key: from-file\n"
                        "max-best-of: 3\n")
        environment = {"COXSWAIN_CONFIG": str(path), "PORT": "0", "HOSTNAME": "3f2a8c"}
        launcher = launch(model=None, port=None, environment=environment).wait_ready()
        assert launcher.url.startswith("http://127.0.0.1:")
        info = requests.get(f"{launcher.url}/info", headers={"Authorization": "Bearer from-file"}, timeout=5).json()
        assert (info["max_total_tokens"], info["max_best_of"]) == (100, 3)
        assert requests.post(f"{launcher.url}/generate", json={"inputs": "a"}, timeout=5).status_code == 401
        assert "from-file" not in launcher.log()
        assert launcher.stop() == 0

    def test_a_plan_starts_nothing(self, launch):
        launcher = launch("--plan", "--replicas", "2", "--memory-bytes-max", "4GB")
        assert launcher.wait_exit() == 0
        assert re.search(rf"^model    {re.escape(str(MODEL))}\nreplicas 2, .*\nshard    .* --memory-bytes-max=2000000000 .*\nrouter   .*\n"
                         r"memory   1\.86 GiB available, weights at least (2\.8[12]|5\.63) MiB, ", launcher.out(), re.MULTILINE), launcher.log()
        assert not list(launcher.temporary.iterdir())
        launcher = launch("--plan", "--memory-bytes-max", "1MB")
        assert launcher.wait_exit() == 1
        assert 'Error: ShardCannotStart("the weights need at least 5.63 MiB' in launcher.err()

    def test_a_start_that_takes_long(self, launch):
        """The launcher says that it waits, and a shard that stands still while it loads does not hold up the end."""
        launcher = launch()
        wait_until(launcher.shard_pid, 60, launcher.log)
        stop_process(launcher.shard_pid())
        wait_until(lambda: "Waiting for shard to be ready... rank=0" in launcher.out(), 60, launcher.log)
        assert launcher.stop() == 0

    def test_few_open_files(self, launch):
        """The soft limit is raised to the hard one, and what does not fit below that is said."""
        launcher = Launcher()
        launcher.command = ["prlimit", "--nofile=256:1024", *launcher.command]
        try:
            launcher.start().wait_ready()
            assert "`--connections-max` 10000 does not fit into 1024 open files, 896 is used" in launcher.out()
            assert "896 connections in 1,024 open files" in launcher.out()
            assert launcher.stop() == 0
        finally:
            launcher.dispose()

    def test_the_curl_can_be_pasted(self, server):
        if shutil.which("curl") is None:
            pytest.skip("curl is not installed")
        command = re.search(r"^  try +(curl (?:.*\\\n)*.*)", server.out(), re.MULTILINE)[1]
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
        answer = json.loads(done.stdout)
        assert answer["choices"][0]["message"]["content"], done.stderr

    def test_packed_weights_are_kept(self, launch, tmp_path):
        """The second start reads what the first one packed; one that finds it damaged says so and packs anew. The block names the file,
        its bytes and the time."""
        body = {"inputs": "What is 12 + 30?", "parameters": {"max_new_tokens": 8}}
        answers, logs, rows = [], [], []
        for start in range(4):
            launcher = launch("--quantize", "int4", "--weights-cache-dir", str(tmp_path / "kept")).wait_ready()
            answers.append(launcher.post("/generate", body).json()["generated_text"])
            assert launcher.stop() == 0
            logs.append(launcher.out())
            [kept] = (tmp_path / "kept").iterdir()
            rows += re.findall(rf"^  packed +[\d.]+ MiB (read from|written to) {re.escape(str(kept))} in \d+\.\d\d s$", logs[-1], re.MULTILINE)
            if start == 1:
                with open(kept, "r+b") as file:
                    file.seek(kept.stat().st_size // 2)
                    file.write(bytes(64))
        assert len(set(answers)) == 1, answers
        assert rows == ["written to", "read from", "written to", "read from"], rows
        assert ["packed weights are made anew" in log for log in logs] == [False, False, True, False]

    def test_json_log(self, launch):
        launcher = launch("--json-output")

        def ready():
            assert launcher.process.poll() is None, launcher.log()
            return '"ready"' in launcher.out()

        wait_until(ready, 60, launcher.log)
        assert launcher.stop() == 0
        ready = None
        for line in launcher.out().splitlines():
            record = json.loads(line)
            assert {"timestamp", "level", "message"} <= record.keys(), line
            ready = record if record["message"] == "ready" else ready
        assert ready["shard"]["model_type"] == "qwen3" and ready["router"]["chat"] is True

    def test_environment(self, launch):
        """TGI's variables; the command line wins."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        launcher = launch("--max-best-of", "3", model=None, port=None, environment={
            "MODEL_ID": str(MODEL), "PORT": str(port), "HOSTNAME": "127.0.0.1", "MAX_CONCURRENT_REQUESTS": "7", "MAX_BEST_OF": "5",
            "MAX_INPUT_TOKENS": "100", "MAX_TOTAL_TOKENS": "200", "MAX_STOP_SEQUENCES": ""}).wait_ready()
        assert launcher.url == f"http://127.0.0.1:{port}"
        info = launcher.get("/info").json()
        assert (info["max_concurrent_requests"], info["max_best_of"]) == (7, 3)
        assert (info["max_input_tokens"], info["max_total_tokens"], info["max_stop_sequences"]) == (100, 200, 4)
        assert launcher.stop() == 0

    def test_what_changes_nothing_is_a_warning(self, launch):
        """What a TGI container may have set and nothing here depends on."""
        launcher = launch("--ngrok-authtoken", "t", environment={
            "CUDA_GRAPHS": "1,2", "REVISION": "main", "LOG_LEVEL": "text_generation_router=debug"}).wait_ready()
        out = launcher.out()
        for name in ("--ngrok-authtoken", "CUDA_GRAPHS", "--revision"):
            assert len(re.findall(rf"WARN .*`{name}` has no effect", out)) == 1, out
        assert launcher.err() == ""
        assert launcher.stop() == 0

    def test_help_and_version(self, launch):
        for flag, text in (("--help", "--model-id"), ("--help-all", "--step-timeout-ms"), ("--version", "text-generation-launcher")):
            launcher = launch(flag, model=None, port=None)
            assert launcher.wait_exit() == 0
            assert text in launcher.out() and launcher.err() == ""

    def test_run_folder_is_private(self, server):
        folders = list(server.temporary.iterdir())
        assert len(folders) == 1 and folders[0].stat().st_mode & 0o777 == 0o700


class TestBundledModels:
    """A name in place of a folder."""

    def test_source_tree(self, launch):
        launcher = launch(model="demo").wait_ready()
        assert launcher.get("/info").json()["model_id"] == "demo"
        assert launcher.get("/v1/models").json()["data"][0]["id"] == "demo"
        assert re.search(r"^  model +demo \(qwen3\)$", launcher.out(), re.MULTILINE)
        assert launcher.stop() == 0

    def test_installed_tree(self, launch, tmp_path, monkeypatch):
        if shutil.which("cmake") is None:
            pytest.skip("cmake is not installed")
        prefix = tmp_path / "prefix"
        subprocess.run(["cmake", "--install", launcher_module.BIN.parent, "--prefix", prefix], check=True, capture_output=True)
        assert sorted(p.name for p in (prefix / "bin").iterdir()) == [
            "coxswain", "text-generation-benchmark", "text-generation-launcher", "text-generation-router", "text-generation-server"]
        assert "--max-total-tokens" in (prefix / "share/bash-completion/completions/text-generation-launcher").read_text()
        assert {p.name for p in (prefix / "share/man/man1").iterdir()} == {
            "text-generation-benchmark.1", "text-generation-launcher.1", "text-generation-router.1", "text-generation-server.1"}
        monkeypatch.setattr(launcher_module, "BIN", prefix / "bin")
        launcher = launch("--served-model-name", "fox", model="demo").wait_ready()
        arguments = pathlib.Path(f"/proc/{launcher.shard_pid()}/cmdline").read_bytes().split(b"\0")
        assert str(prefix / "share/coxswain/models/demo").encode() in arguments
        assert launcher.get("/info").json()["model_id"] == "fox"
        assert launcher.stop() == 0

    def test_an_existing_folder_wins(self, launch):
        launcher = Launcher(model="demo")
        try:
            (launcher.folder / "demo").mkdir()
            _, _, cause, cure = failed_start(launcher.start())
            assert cause == "demo has no config.json"
            assert "For the model demo that comes along, start in another folder." in cure
        finally:
            launcher.dispose()

    def test_hub_cache(self, launch, tmp_path):
        """What was downloaded from a hub is found by its name, without a network."""
        entry = tmp_path / "hub" / "models--org--name"
        (entry / "refs").mkdir(parents=True)
        (entry / "refs" / "main").write_text("c0ffee")
        (entry / "snapshots").mkdir()
        (entry / "snapshots" / "c0ffee").symlink_to(MODEL)
        launcher = launch(model="org/name", environment={"HF_HOME": str(tmp_path)}).wait_ready()
        assert launcher.get("/info").json()["model_id"] == "org/name"
        assert launcher.stop() == 0
        _, _, cause, cure = failed_start(launch("--revision", "v2", model=entry))
        assert cause == f"{entry} has no snapshot v2" and cure.endswith("--revision: main")

    def test_a_file_is_no_folder(self, launch, tmp_path):
        (tmp_path / "x.gguf").write_bytes(b"GGUF")
        code, variant, cause, cure = failed_start(launch(model=tmp_path / "x.gguf"))
        assert (code, variant) == (3, "ShardCannotStart")
        assert cause == f"{tmp_path}/x.gguf: GGUF header: cut off at its start"

    def test_unknown_name(self, launch):
        code, variant, cause, cure = failed_start(launch(model="demmo"))
        assert (code, variant, cause) == (3, "DownloadError", "no folder named demmo")
        assert re.search(r"Models that come along: .*\bdemo\b", cure), cure


class TestUsage:
    @pytest.mark.parametrize(("arguments", "environment", "text"), [
        (["--nonsense"], {}, "unknown option `--nonsense`"),
        (["--max_total_token", "5"], {}, "did you mean `--max-total-tokens`?"),
        (["--payload-limit", "-5"], {}, "`--payload-limit` must be a whole number"),
        (["--max-concurrent-requests", "many"], {}, "`--max-concurrent-requests` must be a whole number"),
        (["--dtype", "int3"], {}, "`--dtype`"),
        (["--num-shard", "2"], {}, "`--num-shard` is not supported yet"),
        (["--speculate", "65"], {}, "`--speculate`"),
        ([], {"MAX_BATCH_SIZE": "x"}, "MAX_BATCH_SIZE"),
        ([], {"JSON_OUTPUT": "1"}, "JSON_OUTPUT"),
    ], ids=["unknown", "mistyped", "range", "type", "choice", "shards", "speculate", "variable", "flag variable"])
    def test_parser(self, launch, arguments, environment, text):
        launcher = launch(*arguments, environment=environment)
        assert launcher.wait_exit() == 2
        assert text in launcher.err() and len(launcher.err().splitlines()) == 1, launcher.log()
        launcher.check_nothing_left()

    @pytest.mark.parametrize(("arguments", "text"), [
        (["--max-input-tokens", "20", "--max-total-tokens", "20"], "`max_input_tokens`(20) must be < `max_total_tokens`(20)"),
        (["--validation-workers", "0"], "`validation_workers` must be > 0"),
        (["--max-batch-size", "0"], "`max_batch_size` must be > 0"),
        (["--port", "4000", "--prometheus-port", "4000"], "`prometheus_port` must not be `port`. Given: 4000"),
        (["--max-total-tokens", "200", "--max-batch-total-tokens", "100"],
         "`max_total_tokens` must be <= `max_batch_total_tokens`. Given: 200 and 100"),
    ], ids=["input", "workers", "batch", "ports", "total"])
    def test_rules(self, launch, arguments, text):
        launcher = launch(*arguments, **({"port": None} if "--port" in arguments else {}))
        assert launcher.wait_exit() == 2
        assert launcher.err().splitlines()[0] == f"Error: ArgumentValidation({json.dumps(text)})", launcher.log()
        launcher.check_nothing_left()

    def test_no_model(self, launch):
        code, variant, cause, cure = failed_start(launch(model=None))
        assert (code, variant, cause) == (2, "ArgumentValidation", "`model_id` must be set")
        assert re.search(r"one that comes along: --model-id demo\b", cure), cure

    def test_a_mistyped_hostname(self, launch):
        launcher = launch("--hostname", "127.0.0.l", port=None)
        assert launcher.wait_exit() == 2
        assert "`--hostname` must be an IPv4 or IPv6 address or `localhost`, not `127.0.0.l`" in launcher.err()

    def test_a_text_file_that_is_none(self, launch, tmp_path):
        code, variant, cause, cure = failed_start(launch("--tokenizer-config-path", tmp_path))
        assert (code, variant) == (2, "ArgumentValidation")
        assert cause == f"`--tokenizer-config-path` {tmp_path} is a folder, not a file" and "leave it out" in cure

    def test_more_tokens_than_the_model_has_positions(self, launch):
        code, variant, cause, _ = failed_start(launch("--max-total-tokens", CONTEXT + 1))
        assert (code, variant) == (2, "ArgumentValidation")
        assert cause == f"`max_total_tokens` must be <= {CONTEXT}, the positions of the model. Given: {CONTEXT + 1}"


class TestPort:
    """One launcher owns a port from its first moment to its last."""

    def test_a_second_launcher_fails_before_it_loads(self, launch):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        first = launch(port=port)
        wait_until(first.shard_pid, 60, first.log)
        stop_process(first.shard_pid())  # so it is still loading
        with socket.socket() as client:  # TGI's port opens after the warm-up, too
            assert client.connect_ex(("127.0.0.1", port)) != 0
        second = launch(port=port)
        code, variant, cause, cure = failed_start(second)
        assert (code, variant) == (1, "WebserverCannotStart")
        assert cause == f"Failed to bind to 127.0.0.1:{port}: another text-generation-launcher has it" and "--port" in cure
        assert "Starting shard" not in second.out()
        os.kill(first.shard_pid(), signal.SIGCONT)
        assert first.wait_ready().url == f"http://127.0.0.1:{port}"
        assert first.stop() == 0

    def test_a_restart_of_the_router_leaves_no_gap(self, launch):
        launcher = launch().wait_ready()
        port = int(launcher.url.rsplit(":", 1)[1])
        router = launcher.router_pid()
        os.kill(router, signal.SIGKILL)
        wait_until(lambda: launcher.router_pid() != router, 60, launcher.log)
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with pytest.raises(OSError, match="Address already in use"):
                other.bind(("127.0.0.1", port))
                other.listen()
        response = launcher.post("/generate", {"inputs": "Once", "parameters": {"max_new_tokens": 2}})
        assert response.status_code == 200
        assert launcher.stop() == 0
        with socket.socket() as client:
            assert client.connect_ex(("127.0.0.1", port)) != 0

    def test_an_address_of_another_machine(self, launch):
        code, variant, cause, cure = failed_start(launch("--hostname", "192.0.2.1", "--port", "0", port=None))
        assert (code, variant) == (1, "WebserverCannotStart")
        assert cause == "Failed to bind to 192.0.2.1:0: Cannot assign requested address" and "--hostname" in cure

    def test_brackets(self, launch):
        if not socket.has_ipv6 or not pathlib.Path("/proc/net/if_inet6").is_file():
            pytest.skip("no IPv6 on this machine")
        launcher = launch("--hostname", "[::1]", "--port", "0", port=None).wait_ready()
        assert launcher.url.startswith("http://[::1]:")
        assert launcher.stop() == 0


class TestHangUp:
    def test_where_there_is_no_terminal_it_is_logged(self, launch):
        launcher = launch().wait_ready()
        launcher.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "SIGHUP: files of keys and certificates are read again" in launcher.out(), 60, launcher.log)
        assert launcher.get("/health").status_code == 200
        assert launcher.stop() == 0

    @pytest.mark.parametrize("outlives", [False, True], ids=["plain", "nohup"])
    def test_a_terminal_that_closes_ends_it(self, outlives):
        """As for every program that a shell starts, unless it was started to outlive the terminal."""
        launcher = Launcher()
        primary, terminal = pty.openpty()
        # Whatever these tests were started with.
        signals = "--ignore-signal=HUP" if outlives else "--default-signal=HUP"
        launcher.command = ["env", signals, *launcher.command]
        try:
            launcher.start(stdin=terminal).wait_ready()
            os.close(terminal)
            launcher.process.send_signal(signal.SIGHUP)
            if outlives:
                wait_until(lambda: "SIGHUP: files of keys and certificates are read again" in launcher.out(), 60, launcher.log)
                assert launcher.stop() == 0
            else:
                assert launcher.wait_exit() == 0
                assert 'stopping signal=SIGHUP' in launcher.out()
                launcher.check_nothing_left()
        finally:
            os.close(primary)
            launcher.dispose()


class TestResources:
    def test_port_in_use(self, launch):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            code, variant, cause, cure = failed_start(launch(port=port))
        assert (code, variant) == (1, "WebserverCannotStart")
        assert cause == f"Failed to bind to 127.0.0.1:{port}: Address already in use" and "--port" in cure

    def test_metrics_port(self, launch):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        launcher = launch("--prometheus-port", port, "--protect-all", environment={"API_KEY": "secret"}).wait_ready()
        url = f"http://127.0.0.1:{port}"
        key = {"Authorization": "Bearer secret"}
        assert requests.get(f"{url}/metrics", timeout=60).status_code == 401
        assert "\ntgi_queue_size 0\n" in requests.get(f"{url}/metrics", headers=key, timeout=60).text
        assert requests.get(f"{url}/info", headers=key, timeout=60).status_code == 404
        assert launcher.stop() == 0

    def test_metrics_port_in_use(self, launch):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            code, variant, cause, cure = failed_start(launch("--prometheus-port", port))
        assert (code, variant) == (1, "WebserverCannotStart")
        assert cause == f"Failed to bind to 127.0.0.1:{port}: Address already in use" and "--prometheus-port" in cure

    def test_a_temporary_folder_with_too_long_a_name(self, launch, tmp_path):
        folder = tmp_path / ("x" * 100)
        folder.mkdir()
        code, variant, cause, cure = failed_start(launch(environment={"TMPDIR": str(folder)}))
        assert (code, variant) == (1, "ShardCannotStart")
        assert cause.startswith("the socket path must have 1 to 107 bytes. Given: ") and "TMPDIR" in cure

    def test_no_temporary_folder(self, launch, tmp_path):
        code, variant, cause, cure = failed_start(launch(environment={"TMPDIR": str(tmp_path / "nothing")}))
        assert (code, variant) == (1, "ShardCannotStart")
        assert cause == f"cannot make a folder in {tmp_path}/nothing: No such file or directory" and "TMPDIR" in cure

    def test_too_little_memory_for_the_weights(self, launch):
        code, variant, cause, cure = failed_start(launch("--memory-bytes-max", "1000000"))
        assert (code, variant) == (1, "ShardCannotStart")
        assert cause == ("the weights need at least 5.63 MiB and 256.0 MiB stay in reserve, but only 976.6 KiB of memory are available")
        assert cure == "Use a smaller model or --quantize int8."

    def test_too_little_memory_for_the_cache(self, launch):
        code, variant, cause, cure = failed_start(launch("--memory-bytes-max", "290000000", "--max-batch-prefill-tokens", "4096"))
        assert (code, variant) == (1, "ShardCannotStart")
        assert re.fullmatch(r"the KV cache holds 0 tokens, one request may need 16 \(276\.6 MiB available, weights 5\.6\d MiB, "
                            r"workspace [\d.]+ MiB, reserve 256\.0 MiB\)", cause), cause
        assert cure == "Lower --max-total-tokens or --max-batch-prefill-tokens, or use --quantize int8."

    def test_too_large_a_cache(self, launch):
        code, variant, cause, cure = failed_start(launch("--memory-bytes-max", "1000000000", "--kv-cache-bytes-max", "2000000000"))
        assert (code, variant) == (1, "ShardCannotStart")
        # The workspace depends on the number of processors.
        assert re.fullmatch(r"a KV cache of 1\.86 GiB was asked for, but after weights \(5\.6\d MiB\), workspace \([\d.]+ MiB\) and reserve "
                            r"only [\d.]+ MiB are left", cause), cause
        assert cure == "Lower --kv-cache-bytes-max."

    def test_a_small_cache_is_a_smaller_limit(self, launch):
        """Less memory than the context needs: the limits follow, and say so."""
        launcher = launch("--kv-cache-bytes-max", "200000").wait_ready()
        total = launcher.get("/info").json()["max_total_tokens"]
        assert 16 <= total < CONTEXT
        response = launcher.post("/v1/completions", {"prompt": "Once", "max_tokens": total, "temperature": 0})
        assert response.status_code == 400
        response = launcher.post("/v1/completions", {"prompt": "Once", "temperature": 0, "ignore_eos": True})
        assert response.status_code == 200 and response.json()["usage"]["total_tokens"] == total
        assert launcher.stop() == 0

    def test_two_launchers_on_one_socket(self, launch, tmp_path):
        prefix = f"/tmp/cx-e2e-{tmp_path.name}-{id(launch)}"
        first = launch("--shard-uds-path", prefix).wait_ready()
        code, variant, cause, cure = failed_start(launch("--shard-uds-path", prefix))
        assert (code, variant) == (1, "ShardCannotStart")
        assert f"{prefix}-0" in cause and "another server is running" in cause and str(first.shard_pid()) in cause
        assert "--shard-uds-path" in cure
        response = first.post("/generate", {"inputs": "Once", "parameters": {"max_new_tokens": 2}})
        assert response.status_code == 200
        assert first.stop() == 0
        assert not [p for p in pathlib.Path("/tmp").glob(pathlib.Path(prefix).name + "*") if p.suffix != ".lock"]

    @pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
    def test_a_folder_that_was_made_is_removed(self, launch, tmp_path, killed):
        folder = pathlib.Path(f"/tmp/cx-e2e-{tmp_path.name}-{id(launch)}")
        launcher = launch("--shard-uds-path", folder / "shard").wait_ready()
        assert (folder / "shard-0").is_socket()
        if killed:
            os.kill(launcher.shard_pid(), signal.SIGKILL)
        assert launcher.stop() == 0
        assert not folder.exists()

    def test_two_launchers_side_by_side(self, server):
        """Without an explicit socket any number of them runs."""
        other = Launcher().start()
        try:
            other.wait_ready()
            assert other.url != server.url
            assert other.stop() == 0
        finally:
            other.dispose()

    def test_missing_programs(self, launch, tmp_path, monkeypatch):
        alone = tmp_path / "bin"
        alone.mkdir()
        shutil.copy2(launcher_module.BIN / "text-generation-launcher", alone)
        monkeypatch.setattr(launcher_module, "BIN", alone)
        code, variant, cause, _ = failed_start(launch())
        assert code == 1 and "text-generation-server" in cause, cause
