"""Live loading while a fleet is asked for more than it computes: shards and a router as on machines of their own."""

import dataclasses
import json
import os
import pathlib
import random
import statistics
import struct
import tempfile
import threading
import time

from harness import (
    BIN,
    MODEL,
    Costs,
    Quotas,
    budgets,
    cpu_of,
    cpu_of_this,
    interval,
    quantile,
    replay,
    shown,
    table,
)
from kubernetes_api import KubernetesApi
from machines import Fleet
from plot import Figure

ARMS = ("live", "stop", "ideal")
COSTS = Costs(step=0.010, decode=0.001, prompt_token=0.0005)
CORES = 0.75  # of a replica: what it computes and what it sends are to be done within its steps
STEP_TOKENS = 256  # a prompt is one step
PROMPTS = (160, 256)
N_OUTPUT = 4
RHO = 1.6
START_S = 0.2  # of a process, until its load begins: about
LAYERS = json.loads((MODEL / "config.json").read_text())["num_hidden_layers"]


class Machines(Fleet):
    """Paced shards, each with its cgroup, and a router that is told of them as of pods. A context manager."""

    def __init__(self, costs):
        self.home = tempfile.TemporaryDirectory()
        self.quotas = Quotas(CORES)
        super().__init__(pathlib.Path(self.home.name))
        self.environment["COXSWAIN_BENCH_PACE"] = costs.text()
        self.words = super().files("all")
        self.server = self.folder / "server"
        self.server.write_text(self.quotas.script(BIN / "coxswain-bench-paced-server"))
        self.server.chmod(0o755)
        self.token = self.folder / "token"
        self.token.write_text("token\n")
        self.pods = KubernetesApi("token")

    def files(self, name, authority="ca"):
        return self.words  # one certificate for all: it is the address that it names

    def begin_shard(self, name, *words):
        self.start(
            name,
            self.server,
            *("serve", MODEL, "--uds-path", self.folder / name, "--threads", 1),
            *("--fleet-listen", "127.0.0.1:0", *self.words, *words),
        )

    def soon(self, name, line):
        """When its log has such a line."""
        while line not in self.log(name):
            if self.processes[name].poll() is not None:
                raise RuntimeError(self.log(name))
            time.sleep(0.005)
        return time.monotonic()

    def place(self, name):
        return "tcp://127.0.0.1:" + self.said(name, r"Other machines reach it at port (\d+)")[1]

    def is_ready(self, name):
        self.pods.put("shards", name, self.place(name))

    def open_router(self):
        """Its port."""
        self.start_router(
            *("--membership", "kubernetes", "--kubernetes-api", self.pods.url, "--kubernetes-namespace", "fleet"),
            *("--kubernetes-services", "shards", "--kubernetes-port", "fleet", "--kubernetes-token-path", self.token),
            *("--max-batch-prefill-tokens", STEP_TOKENS),
        )
        return int(self.connected().rsplit(":", 1)[1])

    def cpu_seconds(self):
        of = {name: cpu_of(process.pid) for name, process in self.processes.items()}
        return {"router": of.pop("router"), "shards": sum(of.values())}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.pods.stop()
        self.quotas.dispose()
        self.home.cleanup()


class Watch:
    """While it is entered: how long this program stood still, and how many cores all other programs had."""

    def __enter__(self):
        self.done, self.late = threading.Event(), 0.0
        self.began, self.busy, self.own = time.monotonic(), busy_seconds(), cpu_of_this()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def look(self):
        while True:
            before = time.monotonic()
            if self.done.wait(0.02):
                return
            self.late = max(self.late, time.monotonic() - before - 0.02)

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.seconds = time.monotonic() - self.began
        self.cores = (busy_seconds() - self.busy - (cpu_of_this() - self.own)) / self.seconds


def busy_seconds():
    words = [int(w) for w in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return (sum(words[:8]) - words[3] - words[4]) / os.sysconf("SC_CLK_TCK")


def weights_bytes():
    """Of what is in front of the first layer, and of a layer."""
    with (MODEL / "model.safetensors").open("rb") as file:
        tensors = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    tensors.pop("__metadata__", None)
    n_bytes = {name: t["data_offsets"][1] - t["data_offsets"][0] for name, t in tensors.items()}
    of_layers = sum(n for name, n in n_bytes.items() if ".layers." in name)
    return sum(n_bytes.values()) - of_layers, of_layers / LAYERS


def prompt_seconds(n):
    return COSTS.step + COSTS.prompt_token * n


def burst(seconds, seed):
    """(arrival, input, output): RHO times what one replica computes, at random."""
    draw, at, out = random.Random(seed), 0.0, []
    mean_s = prompt_seconds(sum(PROMPTS) / 2)
    while at < seconds:
        out.append((at, draw.randint(*PROMPTS), N_OUTPUT))
        at += draw.expovariate(RHO / mean_s)
    return out


# ---- what the policy gives where nothing else takes time


class Policy:
    """First tokens where only prompts and layers take time, by the rules of fleet/plan/zigzag.h and of one queue."""

    def __init__(self, requests, layers_at, divided_s=0.0):
        self.tasks = [Task(at, prompt_seconds(n)) for at, n, _ in requests]
        self.layers_at, self.divided_s = layers_at, divided_s

    def whole(self, second_at):
        """Of two replicas, one there from the beginning, the other from `second_at` on."""
        free = [0.0, second_at]
        for task in self.tasks:
            i = min((0, 1), key=lambda i: max(free[i], task.at))
            free[i] = task.end = max(free[i], task.at) + task.seconds
        return [task.end - task.at for task in self.tasks]

    def live(self):
        self.now = 0.0
        self.donor_ends = self.target_ends = self.running = self.wanted = None
        while any(task.end is None for task in self.tasks):
            if self.target_ends is not None and self.target_ends <= self.now:
                self.end_layer()
            if self.donor_ends is not None and self.donor_ends <= self.now:
                self.donor_ends = None
            n_ready = sum(at <= self.now for at in self.layers_at)
            self.give_to_donor(n_ready)
            if self.running is None:
                self.running = next((t for t in self.waiting() if t.done < n_ready), None)
                self.target_ends = self.now + self.running.seconds / LAYERS if self.running else None
            events = (self.target_ends, self.donor_ends, *self.layers_at, *(task.at for task in self.tasks))
            self.now = min((at for at in events if at is not None and at > self.now), default=self.now)
        return [task.end - task.at for task in self.tasks]

    def waiting(self):
        return [task for task in self.tasks if task.end is None and task.at <= self.now]

    def give_to_donor(self, n_ready):
        if self.donor_ends is not None or self.wanted is not None:
            return
        kept = self.running if n_ready == LAYERS else None
        first = next((task for task in self.waiting() if task is not kept), None)
        if first is not None and first is self.running:
            self.wanted = first
        elif first is not None:
            self.finish_at_donor(first)

    def finish_at_donor(self, task):
        more = self.divided_s if task.done else 0.0
        self.donor_ends = task.end = self.now + task.seconds * (1 - task.done / LAYERS) + more

    def end_layer(self):
        task, self.running, self.target_ends = self.running, None, None
        task.done += 1
        wanted = task is self.wanted
        if wanted:
            self.wanted = None
        if task.done == LAYERS:
            task.end = self.now
        elif wanted:
            self.finish_at_donor(task)


@dataclasses.dataclass
class Task:
    at: float
    seconds: float
    done: int = 0  # layers
    end: float = None


# The remainder of the last block, with those who generate, who could run beside a whole prompt.
DIVIDED_S = COSTS.step + COSTS.prompt_token * 8


def best(arm, requests, layers_at):
    policy = Policy(requests, layers_at, DIVIDED_S if arm == "dear" else 0.0)
    if arm in ("live", "dear"):
        return policy.live()
    return policy.whole(layers_at[-1] if arm == "stop" else 0.0)


# ---- an arm


class Load:
    def __init__(self, times):
        """As long as so many prompts of mean length take."""
        front, layer = weights_bytes()
        self.times, self.seconds = times, times * prompt_seconds(sum(PROMPTS) / 2)
        self.rate = round((front + LAYERS * layer) / self.seconds)
        self.ends_s = START_S + self.seconds  # about so long after the burst has begun

    def layers_at(self, begins_s):
        front, layer = weights_bytes()
        return [begins_s + (front + (i + 1) * layer) / self.rate for i in range(LAYERS)]


# So late this program may be with what it does each 20 ms: a run that is interrupted longer says nothing. So many cores
# other programs may have: beside more it is run again, twice at most, as some machines have nothing else.
LATE_MAX_S = 0.25
OTHERS_MAX, AGAIN_MAX = 0.2, 2


def one_run(run, arm, load, requests):
    for n_void in range(5):
        out = attempt(run, arm, load, requests)
        alone = out["others_cores"] <= OTHERS_MAX
        if out["late_s"] <= LATE_MAX_S and (alone or n_void >= AGAIN_MAX):
            return {**out, "void": n_void, "alone": alone}
    raise RuntimeError(f"this machine stands still for {out['late_s']:.2f} s and more, again and again")


def attempt(run, arm, load, requests):
    with Machines(COSTS) as machines:
        machines.begin_shard("donor", "--weights-rate-max-bytes", load.rate)
        machines.is_ready("donor")
        if arm == "ideal":
            machines.begin_shard("second")
            machines.is_ready("second")
        port = machines.open_router()
        machines.serving(2 if arm == "ideal" else 1)
        replay(port, [(0.02 * i, PROMPTS[0], 2) for i in range(4)])
        spent, at = machines.cpu_seconds(), {}
        held = machines.quotas.held_seconds()

        def load_second():
            if arm == "ideal":
                return
            machines.begin_shard("second", "--weights-from", machines.place("donor"))
            at["begins"] = machines.soon("second", "Weights arrive while requests are served") - begin
            if arm == "live":
                machines.is_ready("second")
            at["ends"] = machines.soon("second", "All weights are there") - begin
            if arm == "stop":
                machines.is_ready("second")

        with Watch() as watch:
            begin = time.monotonic()
            loader = threading.Thread(target=load_second)
            loader.start()
            answers = replay(port, requests, begin)
            loader.join()
        spent = {who: s - spent[who] for who, s in machines.cpu_seconds().items()}
        held = machines.quotas.held_seconds() - held
        fleet = machines.fleet()
        run.cpu(spent)
    first = [a.first for a in answers]
    return {
        "ttft_mean_s": statistics.mean(first),
        **{f"ttft_p{share}_s": quantile(first, share / 100) for share in (50, 95, 99)},
        "gone_s": max(a.arrival + a.first for a in answers),
        "tokens_per_s": tokens_within(answers, load.ends_s) / load.ends_s,
        "load": at,
        "divided": fleet["divided"],
        "first_layers": next((r["first_layers"] for r in fleet["replicas"] if "first_layers" in r), None),
        "cpu_s": spent,
        "held_s": held,
        "seconds": watch.seconds,
        "others_cores": watch.cores - sum(spent.values()) / watch.seconds,
        "late_s": watch.late,
    }


def tokens_within(answers, seconds):
    """Of prompts whose first token has come by then, and of answers."""
    n = 0
    for a in answers:
        at = a.arrival + a.first
        n += a.n_prompt if at <= seconds else 0
        for gap in (0.0, *a.gaps):
            at += gap
            n += at <= seconds
    return n


# ---- all of them


def live(run):
    loads = [Load(times) for times in ((16,) if run.quick else (8, 16, 32))]
    run.says(
        f"emulation: steps computed by models/demo ({LAYERS} layers), paced to {COSTS}, some layers to their share; "
        f"{budgets(CORES)}; weights over TLS on the loopback, held to "
        + ", ".join(f"{load.rate / 1e6:.2f}" for load in loads)
        + f" MB/s, which takes {', '.join(f'{load.seconds:.2f}' for load in loads)} s, the time of "
        f"{', '.join(str(load.times) for load in loads)} prompts; until that is over prompts of {PROMPTS[0]} to "
        f"{PROMPTS[1]} tokens arrive at random, {RHO} times as many as one replica computes; the process that loads "
        "starts with the first of them"
    )
    out, bests = {}, {}
    for n in range(run.rounds):
        for load in loads:
            requests = burst(load.ends_s, run.seed + n)
            for arm in ARMS:  # arms in turn
                out.setdefault(load.times, {}).setdefault(arm, []).append(one_run(run, arm, load, requests))
            layers_at = load.layers_at(out[load.times]["live"][-1]["load"]["begins"])
            for arm in (*ARMS, "dear"):
                first = best(arm, requests, layers_at)
                bests.setdefault(load.times, {}).setdefault(arm, []).append(
                    {
                        "ttft_mean_s": statistics.mean(first),
                        **{f"ttft_p{share}_s": quantile(first, share / 100) for share in (50, 95, 99)},
                        "gone_s": max(s + at for s, (at, _, _) in zip(first, requests)),
                    }
                )
    tell(loads, out, bests)
    judge(run, loads, out)
    draw(run, loads, out, bests)
    return {"runs": out, "policy": bests}


def tell(loads, out, bests):
    rows = []
    for load in loads:
        named = [(arm, out[load.times][arm]) for arm in ARMS]
        named += [(f"policy: {arm}", bests[load.times][arm]) for arm in ("live", "stop")]
        named += [("policy: live, a step more", bests[load.times]["dear"])]
        for name, runs in named:
            of = lambda key, scale=1.0: shown([scale * r[key] for r in runs])
            row = [f"{load.times}: {name}", *(of(f"ttft_{key}_s", 1e3) for key in ("mean", "p50", "p95", "p99"))]
            row += [of("gone_s"), shown([r["tokens_per_s"] for r in runs], 4) if "tokens_per_s" in runs[0] else ""]
            if name == "live":
                row += [shown([r["divided"]["moved"] + r["divided"]["finished"] for r in runs])]
                row += [shown([r["first_layers"]["layers"] for r in runs])]
            rows.append(row + [""] * (9 - len(row)))
        arms = out[load.times]
        keys = ("ttft_mean_s", "ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "gone_s", "tokens_per_s")
        for name, a, b in (("live / stop", arms["live"], arms["stop"]), ("ideal / stop", arms["ideal"], arms["stop"])):
            rows.append([f"{load.times}: {name}", *(shown(ratios(a, b, key)) for key in keys), "", ""])
        a, b = bests[load.times]["live"], bests[load.times]["stop"]
        rows.append([f"{load.times}: policy: live / stop", *(shown(ratios(a, b, key)) for key in keys[:5]), "", "", ""])
    head = ["load in prompts: arm", "first mean ms", "p50 ms", "p95 ms", "p99 ms", "all computed s", "tokens/s in the load"]
    table([*head, "divided", "layers"], rows)
    runs = [r for arms in out.values() for rounds in arms.values() for r in rounds]
    held = {arm: [r["held_s"] / r["seconds"] for of in out.values() for r in of[arm]] for arm in ARMS}
    print(
        "replicas stood still for their share of a core, all together, for so much of the time: "
        + ", ".join(f"{arm} {shown(values)}" for arm, values in held.items())
    )
    loaded = [(load, r["load"]) for load in loads for r in out[load.times]["live"]]
    print(
        f"loads began after {shown([at['begins'] for _, at in loaded])} s and took "
        f"{shown([(at['ends'] - at['begins']) / load.seconds for load, at in loaded])} of their time; "
        f"other programs had {shown([r['others_cores'] for r in runs])} cores; {sum(r['void'] for r in runs)} runs in "
        f"which they had more than {OTHERS_MAX}, or nothing ran for {LATE_MAX_S} s, were run again, and "
        f"{sum(not r['alone'] for r in runs)} in which they had more count"
    )


def ratios(a, b, key):
    return [x[key] / y[key] for x, y in zip(a, b)]


def judge(run, loads, out):
    for load in loads:
        arms = out[load.times]
        mean, p95 = (
            statistics.median(ratios(arms["live"], arms["stop"], key)) for key in ("ttft_mean_s", "ttft_p95_s")
        )
        run.check(f"{load.times}: first token, mean, live / stop <= 0.75 ({mean:.2f})", mean <= 0.75)
        run.check(f"{load.times}: p95 likewise ({p95:.2f})", p95 <= 0.75)
    live_runs = [r["divided"] for load in loads for r in out[load.times]["live"]]
    run.check(
        "prompts were divided, and none was computed again",
        all(d["moved"] > 0 for d in live_runs) and sum(d["recomputed"] for d in live_runs) == 0,
    )


def draw(run, loads, out, bests):
    groups = [f"load of {load.times}" for load in loads]
    bars = lambda key, scale: [
        *([interval([scale * r[key] for r in out[load.times][arm]]) for load in loads] for arm in ARMS),
        [interval([scale * r[key] for r in bests[load.times]["live"]]) for load in loads],
    ]
    Figure("Live loading in a burst", [*ARMS, "the policy's best"], run.note).bars(
        "first token, mean, ms", groups, bars("ttft_mean_s", 1e3)
    ).bars("first token, p95, ms", groups, bars("ttft_p95_s", 1e3)).bars(
        "until all prompts are computed, s", groups, bars("gone_s", 1)
    ).write(run.svg("live"))
