"""Who is measured: each side makes its model, starts, and answers rows with figures."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import make
import rows

LOAD = make.ROOT / "bench/serve_load.py"


class Failed(Exception):
    pass


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A program that serves HTTP while the block runs."""

    def __init__(self, command, port, log):
        self.command, self.url, self.log = command, f"http://127.0.0.1:{port}", log

    def __enter__(self):
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 180
        while True:
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=5):
                    return self
            except (OSError, urllib.error.URLError):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.__exit__()
                    raise Failed(f"the server did not start: {self.log}") from None
                time.sleep(0.2)

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def load(self, n_clients):
        run = subprocess.run([sys.executable, LOAD, self.url, "--clients", str(n_clients), "--requests", str(3 * n_clients)],
                             capture_output=True, text=True)
        figures = re.search(r"([\d.]+) tokens/s, first token p50 ([\d.]+).*gap p50 [\d.]+ p99 ([\d.]+)", run.stdout)
        if run.returncode or not figures:
            raise Failed(run.stdout + run.stderr)
        return dict(zip(("tokens_per_s", "first_ms", "gap_p99_ms"), map(float, figures.groups())))


class Side:
    """One peer, or we, with one form of the weights. Between start() and stop() it answers figures()."""

    def __init__(self, kit, form, n_threads):
        self.kit, self.form, self.n_threads = kit, form, n_threads

    def takes(self, kind):
        return kind in ("prefill", "decode")

    def pids(self):
        return []

    def start(self):
        pass

    def stop(self):
        pass


class Worker(Side):
    """Lives in a process of its own (rows.serve)."""

    process = None

    def pids(self):
        return [self.process.pid] if self.process else []

    def start(self):
        log = self.kit.folder / f"{self.name}-{self.form}.log"
        with open(log, "w") as errors:
            self.process = subprocess.Popen([str(word) for word in self.command()], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=errors, text=True)
        self.read(log)

    def read(self, log=None):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise Failed(f"{self.name} has ended" + (f": {log}" if log else ""))

    def figures(self, kind, n):
        self.process.stdin.write(f"{kind} {n}\n")
        self.process.stdin.flush()
        return self.read()

    def stop(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
            self.process = None


class Coxswain(Worker):
    name = "coxswain"
    forms = ["bf16", "int8", "int4-g128", "q8_0", "q4_0", "q4_k_m"]

    def takes(self, kind):
        return super().takes(kind) or self.form == "int8"  # one of its forms serves

    def model(self):
        return self.kit.gguf(self.form) if self.form.startswith("q") else self.kit.model()

    def quantize(self):
        return self.form if self.form.startswith("int") else ""

    def command(self):
        library = self.kit.programs.parent / "src/libcoxswain.so"
        return [sys.executable, make.HERE / "worker_coxswain.py", library, self.model(), self.quantize(), self.n_threads,
                *([self.kit.isa] if self.kit.isa else [])]

    def figures(self, kind, n):
        if not kind.startswith("server"):
            return super().figures(kind, n)
        port = free_port()
        command = [str(self.kit.programs / "text-generation-launcher"), "--model-id", str(self.model()), "--hostname", "127.0.0.1",
                   "--port", str(port), "--threads", str(self.n_threads)]
        command += ["--isa", self.kit.isa] if self.kit.isa else []
        command += ["--quantize", self.quantize()] if self.quantize() else []
        command += ["--target-itl-ms", "120"] if kind == "server-itl" else []
        with Server(command, port, self.kit.folder / "coxswain-server.log") as server:
            return server.load(n)


class LlamaCpp(Side):
    name = "llama.cpp"
    forms = ["bf16", "q8_0", "q4_0", "q4_k_m"]

    def takes(self, kind):
        return super().takes(kind) or kind == "server"

    def start(self):
        self.programs, self.path = self.kit.llama_cpp(), self.kit.gguf(self.form)

    def bench(self, program, *words):
        run = subprocess.run([self.programs / program, "-m", self.path, "-t", str(self.n_threads), "-fa", "on", *map(str, words)],
                             capture_output=True, text=True)
        if run.returncode:
            raise Failed(run.stderr[-2000:])
        return run.stdout

    def figures(self, kind, n):
        if kind == "prefill":
            return {"tokens_per_s": json.loads(self.bench("llama-bench", "-p", n, "-n", 0, "-r", 1, "-o", "json"))[0]["avg_ts"]}
        if kind == "decode":
            n_new = rows.tokens_of_decode(n)
            context = n * (rows.PROMPT_OF_DECODE + n_new + 8)
            lines = self.bench("llama-batched-bench", "-c", context, "-npp", rows.PROMPT_OF_DECODE, "-ntg", n_new, "-npl", n,
                               "--output-format", "jsonl").splitlines()
            return {"tokens_per_s": json.loads(next(line for line in lines if line.startswith("{")))["speed_tg"]}
        port = free_port()
        command = [self.programs / "llama-server", "-m", self.path, "-t", self.n_threads, "-fa", "on", "-np", n, "-c", n * 256,
                   "--host", "127.0.0.1", "--port", port]
        with Server([str(word) for word in command], port, self.kit.folder / "llama-server.log") as server:
            return server.load(n)


class OpenVino(Worker):
    name = "openvino"
    forms = ["fp16", "int8", "int4"]

    def takes(self, kind):
        return super().takes(kind) or kind == "server"

    def command(self):
        return [self.kit.python(), make.HERE / "worker_openvino.py", self.kit.openvino(self.form), self.n_threads]


class CTranslate2(Worker):
    name = "ctranslate2"
    forms = ["int8"]

    def command(self):
        return [self.kit.python(), make.HERE / "worker_ctranslate2.py", self.kit.ctranslate2(self.form), self.form, self.n_threads]


SIDES = {side.name: side for side in (Coxswain, LlamaCpp, OpenVino, CTranslate2)}
CLASS_OF = {"bf16": "bf16", "fp16": "bf16", "int8": "8 bit", "q8_0": "8 bit"}  # any other form: 4 bit


def class_of(form):
    return CLASS_OF.get(form, "4 bit")


def weight_bytes(kit, form, size):
    """What a step of one row reads of weights."""
    layers, head = size["layers"], size["head"]
    if form.startswith("q"):
        return kit.gguf(form).stat().st_size
    return {"bf16": 2 * (layers + head), "int8": layers + head, "int4-g128": layers * (0.5 + 2 / 128) + head}[form]


def model_size(kit):
    """Weights in matrices of the layers and of the head."""
    config = json.loads((pathlib.Path(kit.model()) / "config.json").read_text())
    width, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim") or width // config["num_attention_heads"]
    attention = 2 * width * head * (config["num_attention_heads"] + config["num_key_value_heads"])
    return {"layers": config["num_hidden_layers"] * (attention + 3 * width * inner), "head": width * config["vocab_size"]}


def physical_cores():
    return len(os.sched_getaffinity(0))
