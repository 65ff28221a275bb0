"""What the experiments share: paced fleets, clients that ask as a trace says, figures with intervals, tables."""

import contextlib
import dataclasses
import http.client
import itertools
import json
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from launcher import BIN, Launcher  # noqa: E402
from process_tree import processes_with_tag, wait_until  # noqa: E402,F401

MODEL = ROOT / "models/demo"
VOCABULARY = json.loads((MODEL / "config.json").read_text())["vocab_size"]


class Skipped(Exception):
    pass


def data_folder():
    """Of the reference data, traces at least; None where it is missing."""
    for folder in (os.environ.get("COXSWAIN_DATA"), ROOT / "build/data", ROOT.parent / "shared/data"):
        if folder and (pathlib.Path(folder) / "traces").is_dir():
            return pathlib.Path(folder)
    return None


def conv_trace():
    folder = data_folder()
    if folder is None:
        raise Skipped("no reference data with traces (COXSWAIN_DATA)")
    return folder / "traces/azure_2023_conv.csv"


# ---- figures


def quantile(values, share):
    ordered = sorted(values)
    return ordered[int(share * (len(ordered) - 1))] if ordered else float("nan")


def interval(values, rounds=2000):
    """(median, low, high): 95 % of the medians of samples drawn from these, with a fixed seed."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(rounds))
    return statistics.median(values), medians[rounds // 40], medians[-1 - rounds // 40]


def shown(values, digits=3):
    middle, low, high = interval(values)
    return f"{middle:.{digits}g}" + (f" [{low:.{digits}g}, {high:.{digits}g}]" if len(values) > 1 else "")


def table(head, rows):
    cells = [list(map(str, row)) for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for n, row in enumerate(cells):
        print(
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))
            )
        )
        if n == 0:
            print("  ".join("-" * width for width in widths))


def cpu_of_this():
    return sum(
        getattr(resource.getrusage(who), name)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        for name in ("ru_utime", "ru_stime")
    )


# Fields of /proc/PID/stat, counted from 1: user and system time, of itself and of those that it has waited for.
ITSELF, CHILDREN = (14, 15), (16, 17)


def cpu_of(pid, fields=ITSELF):
    try:
        words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return sum(int(words[i - 3]) for i in fields) / os.sysconf("SC_CLK_TCK")


# ---- other programs of ours


def output_of(program, *arguments):
    done = subprocess.run([BIN / program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{program}: {done.stderr}")
    return done.stdout


def simulate(scenario, seed=1):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(scenario, file)
        file.flush()
        return json.loads(output_of("coxswain-bench-fleet-sim", file.name, f"--seed={seed}"))


# ---- emulated replicas


class Quotas:
    """A cgroup with a share of a core for each replica of a fleet, where the kernel lets us make some."""

    CORES, PERIOD_US = 0.5, 10000
    numbers = itertools.count()

    def __init__(self, cores=CORES):
        self.folder = None
        for root, is_v2 in (("/sys/fs/cgroup/cpu", False), ("/sys/fs/cgroup", True)):
            folder = pathlib.Path(root) / f"coxswain-bench-{os.getpid()}-{next(self.numbers)}"
            quota = int(cores * self.PERIOD_US)
            self.limits = (
                {"cpu.max": f"{quota} {self.PERIOD_US}"}
                if is_v2
                else {"cpu.cfs_period_us": str(self.PERIOD_US), "cpu.cfs_quota_us": str(quota)}
            )
            probe = folder / "0"
            try:
                folder.mkdir()
                if is_v2:
                    (folder / "cgroup.subtree_control").write_text("+cpu")
                probe.mkdir()
                for name, value in self.limits.items():
                    (probe / name).write_text(value)
                probe.rmdir()
            except OSError:
                self.folder = folder
                self.dispose()
                continue
            self.folder = folder
            return

    def script(self, program, first=()):
        """Of sh: the program, behind lines of the caller's, in a group of its own if there is any."""
        lines = ["#!/bin/sh", *first]
        if self.folder:
            lines += [f"group={self.folder}/$$", 'mkdir "$group"']
            lines += [f'echo {value} > "$group/{name}"' for name, value in self.limits.items()]
            lines += ['echo $$ > "$group/cgroup.procs"']
        return "\n".join([*lines, f'exec {program} "$@"']) + "\n"

    def held_seconds(self):
        """How long programs of all groups have been stopped for the share, so far."""
        if not self.folder:
            return 0.0
        stats = [dict(map(str.split, file.read_text().splitlines())) for file in self.folder.glob("*/cpu.stat")]
        return sum(float(s.get("throttled_time", 0)) / 1e9 + float(s.get("throttled_usec", 0)) / 1e6 for s in stats)

    def dispose(self):
        """Once nothing runs in them any more."""
        if self.folder and self.folder.is_dir():
            for group in [*self.folder.glob("*/"), self.folder]:
                with contextlib.suppress(OSError):
                    group.rmdir()
        self.folder = None


def budgets(cores=Quotas.CORES):
    """What a paced replica has of this machine."""
    quotas = Quotas(cores)
    grouped = quotas.folder is not None
    quotas.dispose()
    return (
        f"a cgroup of {cores} cores for each replica, period {Quotas.PERIOD_US // 1000} ms"
        if grouped
        else "a thread for each replica, as no cgroup with a quota can be made here"
    )


@dataclasses.dataclass(frozen=True)
class Costs:
    """Seconds, as bench/step_costs.h has them."""

    step: float = 0.020
    decode: float = 0.001
    prompt_token: float = 0.0004
    decode_context: float = 0.0
    prompt_context: float = 0.0

    def __str__(self):
        return (
            f"{self.step * 1e3:.0f} ms a step, {self.decode * 1e3:.0f} ms a sequence that decodes "
            f"and {self.prompt_token * 1e3:.2f} ms a prompt token"
        )

    def text(self):
        return ",".join(str(value) for value in dataclasses.astuple(self))

    def scenario(self):
        return {f"{name}_s": value for name, value in dataclasses.asdict(self).items()}


class Fleet(Launcher):
    """A launcher whose shards are coxswain-bench-paced-server, or as they are (costs=None). A context manager."""

    def __init__(self, *arguments, costs=None, start=None, environment=None, model=MODEL):
        environment = dict(environment or {})
        if costs:
            environment["COXSWAIN_BENCH_PACE"] = costs.text()
        self.quotas = Quotas() if costs else None
        super().__init__((*arguments, "--admin-listen", "127.0.0.1:0"), environment, model)
        self.stamps = self.folder / "stamps"
        self.stamps.mkdir()
        if start:
            self.environment["COXSWAIN_BENCH_START"] = ",".join(map(str, start))
            n_first = int(arguments[arguments.index("--replicas") + 1]) if "--replicas" in arguments else 1
            self.keep_copies(range(n_first))
        if costs:
            programs = self.folder / "bin"
            programs.mkdir()
            for name in ("text-generation-launcher", "text-generation-router"):
                shutil.copy(BIN / name, programs / name)
            server = programs / "text-generation-server"
            server.write_text(self.script())
            server.chmod(0o755)
            self.command[0] = str(programs / "text-generation-launcher")
        self.start()

    def __enter__(self):
        try:
            return self.wait_ready()
        except BaseException:
            self.dispose_all()
            raise

    def __exit__(self, kind, *_):
        try:
            if kind is None and self.stop() != 0:
                raise RuntimeError(self.log())
        finally:
            self.dispose_all()

    def dispose_all(self):
        self.dispose()
        if self.quotas:
            self.quotas.dispose()

    def script(self):
        """Of sh: the server, with the stamp of its replica, as each has a machine and so a host memory of its own."""
        lines = [
            'all="$*"',
            'case "$all" in *-replica-*) replica="${all##*-replica-}";; *) replica=0;; esac',
            f'[ -z "$COXSWAIN_BENCH_START" ] || COXSWAIN_BENCH_START="{self.stamps}/${{replica%% *}},$COXSWAIN_BENCH_START"',
        ]
        return self.quotas.script(BIN / "coxswain-bench-paced-server", lines)

    def keep_copies(self, replicas):
        """Copies in host memory of these replicas' machines are in use."""
        for replica in replicas:
            (self.stamps / str(replica)).touch()

    def admin_port(self):
        line = next(line for line in self.out().splitlines() if "the replicas are shown at" in line)
        return int(line.split("at=127.0.0.1:")[1].split()[0].strip('"'))

    def admin(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port(), timeout=60)
        connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {text[:400]!r}")
        return json.loads(text)

    def shards(self):
        """{replica: pid} of those that run."""
        found = {}
        for process in self.processes():
            try:
                words = pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            path = next((w for w in words if w.startswith("--uds-path=")), None)
            if path and "serve" in words[:2]:
                found[int(path.rsplit("-replica-", 1)[1]) if "-replica-" in path else 0] = process.pid
        return found

    def cpu_seconds(self):
        """{"router": s, "shards": s}, those that have ended included."""
        router = self.router_pid()
        out = {"router": cpu_of(router) if router else 0.0}
        out["shards"] = sum(map(cpu_of, self.shards().values())) + cpu_of(self.process.pid, CHILDREN)
        return out


def planner(slow=1, prefill_rate=1800):
    """Its constants for paced fleets; times as many as `slow`."""
    times = {
        "tick": 100,
        "window": 4000,
        "down-cooldown": 2000,
        "warm-ttl": 2000,
        "backlog-low": 100,
        "backlog-high": 250,
    }
    words = [word for name, ms in times.items() for word in (f"--planner-{name}-ms", str(ms * slow))]
    return (*words, "--planner-prefill-rate", str(prefill_rate // slow))


# ---- clients


@dataclasses.dataclass
class Answer:
    arrival: float
    n_prompt: int
    n_output: int
    first: float = float("nan")  # seconds from the arrival on
    last: float = float("nan")
    gaps: list = dataclasses.field(default_factory=list)
    error: str = ""


def ask(port, answer, number, begin):
    """One streamed request of so many token ids; times count from `begin` + arrival."""
    draw = random.Random(number)
    body = {
        "model": "tgi",
        "stream": True,
        "ignore_eos": True,
        "max_tokens": answer.n_output,
        "temperature": 0,
        "prompt": [draw.randrange(100, VOCABULARY) for _ in range(answer.n_prompt)],
    }
    zero = begin + answer.arrival
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise ValueError(f"{response.status}: {response.read()[:200]!r}")
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            now = time.monotonic() - zero
            document = json.loads(line[6:])
            if "error" in document:
                raise ValueError(line[:200])
            for choice in document.get("choices", []):
                if choice.get("finish_reason") and not choice.get("text") and answer.first == answer.first:
                    continue
                if answer.first != answer.first:
                    answer.first = now
                else:
                    answer.gaps.append(now - answer.last)
                answer.last = now
        connection.close()
        if answer.first != answer.first:
            raise ValueError("no token came")
    except (OSError, ValueError, http.client.HTTPException) as error:
        answer.error = repr(error)


# No two prompts of a run have a common beginning that a cache could have.
NUMBERS = itertools.count()


def replay(port, requests, begin=None):
    """requests: (arrival_s, input_tokens, output_tokens); each is sent at its time, whatever the others do. Times count
    from `begin` on."""
    answers = [Answer(*request) for request in requests]
    threads = []
    begin = begin or time.monotonic() + 0.2
    for answer in answers:
        time.sleep(max(0.0, begin + answer.arrival - time.monotonic()))
        thread = threading.Thread(target=ask, args=(port, answer, next(NUMBERS), begin))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()
    failed = [a.error for a in answers if a.error]
    if failed:
        raise RuntimeError(f"{len(failed)} requests failed, the first: {failed[0]}")
    return answers


def figures(answers):
    return {
        "ttft_mean_s": statistics.mean(a.first for a in answers),
        "ttft_p50_s": quantile([a.first for a in answers], 0.5),
        "ttft_p95_s": quantile([a.first for a in answers], 0.95),
        "gap_p50_s": quantile([g for a in answers for g in a.gaps], 0.5),
        "gap_p95_s": quantile([g for a in answers for g in a.gaps], 0.95),
        "tokens_per_s": sum(a.n_output for a in answers) / max(a.arrival + a.last for a in answers),
    }


def check_e4(run, part, arms, ours, time_key):
    """What e4 asks of `ours`; arms: of each name the figures of its runs, of the same requests in turn."""

    def ratio(key, other):
        return statistics.median(a[key] / b[key] for a, b in zip(arms[ours], arms[other]))

    late = {other: ratio("ttft_p95_s", other) for other in ("serverless", "allcache")}
    spent = {other: ratio(time_key, other) for other in ("serverless", "static full")}
    within = statistics.median(r["attained"] for r in arms[ours])
    run.check(
        f"{part}: p95 of first tokens at most 0.6 of serverless ({late['serverless']:.2f})", late["serverless"] <= 0.6
    )
    run.check(f"{part}: and 0.7 to 1.0 of allcache ({late['allcache']:.2f})", 0.7 <= late["allcache"] <= 1.0)
    run.check(f"{part}: replica-time at most 0.9 of serverless ({spent['serverless']:.2f})", spent["serverless"] <= 0.9)
    run.check(
        f"{part}: and 0.6 of static full ({spent['static full']:.2f}), with 99 % within 5 times what prompts take "
        f"({100 * within:.1f} %)",
        spent["static full"] <= 0.6 and within >= 0.99,
    )


def cut(path, from_s, seconds, factor=1.0, speed=1.0, input_max=1500, output_max=400):
    """Rows of a trace; lengths times `factor`, `speed` times as fast."""
    rows = []
    for line in path.read_text().splitlines()[1:]:
        at, n_in, n_out = map(float, line.split(","))
        at = at / speed - from_s
        if 0 <= at < seconds and n_in >= 1 and n_out >= 1:
            rows.append(
                (at, max(1, min(input_max, round(n_in * factor))), max(1, min(output_max, round(n_out * factor))))
            )
    return rows
