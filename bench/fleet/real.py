"""Experiments on real processes: what they compute and move is real; what is paced or held to a rate is said."""

import concurrent.futures
import contextlib
import os
import pathlib
import random
import re
import signal
import statistics
import threading
import time

from harness import (
    Costs,
    Fleet,
    budgets,
    check_e4,
    conv_trace,
    cut,
    figures,
    interval,
    output_of,
    replay,
    shown,
    table,
    wait_until,
)
from plot import Figure
from fleet_work import answer_of, long_bodies

ROLES = ("--replicas", "2", "--threads", "1", "--roles", "prefill=1,decode=1")


# ---- E1: transfers


def e1(run):
    rounds = 3 if run.quick else 7
    run.says("emulation: real transfers over sockets of one machine, each sender held to 40 MiB/s")
    done = output_of(
        "coxswain-bench-multicast",
        f"--rounds={rounds}",
        "--receivers=3" if run.quick else "--receivers=5",
        "--mib=32" if run.quick else "--mib=64",
    )
    print(done)
    arms = {}
    for name, n, seconds, ratio in re.findall(r"^(star|chain|lanes) +(\d+) +([\d.]+) +([\d.]+)", done, re.M):
        arms.setdefault(name, []).append((int(n), float(seconds), float(ratio)))
    run.check("chain(N) <= 1.15 chain(1)", all(r <= 1.15 for _, _, r in arms["chain"]))
    run.check("star(N) >= 0.8 N star(1)", all(r >= 0.8 * n for n, _, r in arms["star"]))
    run.check("k lanes <= 1.2 / k", all(r <= 1.2 / n for n, _, r in arms["lanes"]))
    Figure("E1: time until the last of N receivers has the weights", arms, run.note).lines(
        "s", "N", [[(n, s) for n, s, _ in arm] for arm in arms.values()]
    ).write(run.svg("e1"))
    return arms


# ---- E2: how long a stop may be


def e2(run):
    costs, t_net, limit = Costs(), 0.5, 1.0
    stops = [0, 0.5, 1, 2, 4]
    run.says(
        f"emulation: steps computed by models/demo, paced to {costs}; {budgets()}; "
        f"a load is emulated by SIGSTOP; T_net {t_net} s"
    )
    requests = cut(conv_trace(), 100, 8 if run.quick else 15, factor=0.25, speed=1.0)
    late, ttft = {s: [] for s in stops}, {s: [] for s in stops}
    with Fleet("--replicas", "2", "--threads", "1", costs=costs) as fleet:
        port = int(fleet.url.rsplit(":", 1)[1])
        replay(port, requests[:4])
        for _ in range(run.rounds):
            for stop in stops:  # arms in turn
                halt = threading.Timer(2.2, hold, (fleet, stop * t_net))
                halt.start()
                answers = replay(port, requests)
                halt.join()
                late[stop].append(sum(a.first > limit for a in answers) / len(answers))
                ttft[stop].append(statistics.mean(a.first for a in answers))
        run.cpu(fleet.cpu_seconds())
    table(
        ["stop / T_net", "stop s", f"later than {limit} s", "first token, mean s"],
        [[s, s * t_net, shown(late[s]), shown(ttft[s])] for s in stops],
    )
    middles = [statistics.median(late[s]) for s in stops]
    run.check(
        "violations rise with the stop",
        all(a <= b + 0.02 for a, b in zip(middles, middles[1:])) and middles[-1] > middles[0],
    )
    knee = limit - statistics.median(ttft[0])
    run.check(
        f"below {knee:.2f} s, the limit less the mean of a run without a stop, hardly any is late (0.05); "
        "twice that long, more are",
        all(m <= middles[0] + 0.05 for s, m in zip(stops, middles) if s * t_net < knee)
        and all(m > middles[0] + 0.05 for s, m in zip(stops, middles) if s * t_net > 2 * knee),
    )
    Figure("E2: first tokens that are late, over the length of a stop", ["late share", "mean s"], run.note).lines(
        "share later than 1 s; mean first token in s",
        "length of the stop, s",
        [
            [(s * t_net, statistics.median(late[s])) for s in stops],
            [(s * t_net, statistics.median(ttft[s])) for s in stops],
        ],
    ).write(run.svg("e2"))
    return {"late": late, "ttft_mean_s": ttft}


def hold(fleet, seconds):
    """Both replicas stand still, as where parameters had to arrive first."""
    pids = list(fleet.shards().values())
    if seconds == 0:
        return
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


# ---- E4: end to end


# Ten for prompts and six that generate, as in `e4-simulated`, each as if it had a machine.
E4_FULL = (10, 6)
E4_HALF = (5, 3)
E4_PLANNER = {
    "tick-ms": 100,
    "window-ms": 10000,
    "down-cooldown-ms": 1500,
    "warm-ttl-ms": 333,
    "backlog-low-ms": 500,
    "backlog-high-ms": 700,
    "migration-high-ms": 800,
    "loads-max": 16,
    "changes-max": 128,
}
T_PEER = 1.3
LOOKED_S = 3  # after so long a process has looked for its copy


def e4_arms():
    """(name, options, start): a start takes what a load from that source takes, in the ratio 10 : 0.78 : 1 of disk,
    host memory and network."""
    words = [word for name, value in E4_PLANNER.items() for word in (f"--planner-{name}", str(value))]
    scales = (*split(1, 1), "--autoscale", "--replicas-max", str(sum(E4_FULL)), *words)
    disk, host = 10 * T_PEER, 0.78 * T_PEER
    return [
        ("peers", scales, (T_PEER, T_PEER, 1e9)),
        ("serverless", scales, (host, disk, 30)),
        ("allcache", scales, (host, host, 1e9)),
        ("static full", split(*E4_FULL), None),
        ("static half", split(*E4_HALF), None),
    ]


def split(n_prefill, n_decode):
    return ("--replicas", str(n_prefill + n_decode), "--roles", f"prefill={n_prefill},decode={n_decode}")


def thinned(requests, seconds, per_s, seed):
    """As many of them, at random, as have `per_s` prompt tokens a second in the mean."""
    share = per_s * seconds / sum(n_in for _, n_in, _ in requests)
    if share > 1:
        raise ValueError(f"the cut has only {1 / share:.2f} of {per_s} tokens/s")
    draw = random.Random(seed)
    return [request for request in requests if draw.random() < share]


def e4(run):
    costs = Costs()
    seconds = 30 if run.quick else 60
    path = conv_trace().with_name("azure_2023_code.csv")  # bursts behind pauses
    begins = (180, 560, 840)  # of a cut in each round
    loads = (0.05,) if run.quick else (0.05, 0.1)  # in the mean, of the prompts that ten replicas compute
    run.says(
        f"emulation: steps computed by models/demo, paced to {costs}; {budgets()}; 1 + 1 replicas at least, "
        f"{E4_FULL[0]} + {E4_FULL[1]} in all, prompts apart where less is lost (--disaggregation auto); "
        f"starts paced to loads of {T_PEER} s from peers, {0.78 * T_PEER:.2f} s from host memory, {10 * T_PEER:.0f} s "
        "from disk, the ratio of 100, 128 and 10 Gbit/s; no live loading"
    )
    rows, out = [], {}
    for share in loads:
        name, got = f"code {share}", {}
        for n in range(run.rounds):
            whole = cut(path, begins[n % len(begins)], seconds, 0.15)
            requests = thinned(whole, seconds, share * E4_FULL[0] / costs.prompt_token, run.seed + n)
            for arm, options, start in e4_arms():  # arms in turn
                got.setdefault(arm, []).append(one_run(run, options, start, requests, costs))
        for arm, runs in got.items():
            of = lambda key: [r[key] for r in runs]
            rows.append(
                [
                    f"{name}: {arm}",
                    shown([1e3 * v for v in of("ttft_p50_s")]),
                    shown([1e3 * v for v in of("ttft_p95_s")]),
                    shown([100 * v for v in of("attained")]),
                    shown([1e3 * v for v in of("gap_p95_s")]),
                    shown(of("replica_s")),
                ]
            )
        out[name] = got
    table(["trace, load: arm", "first p50 ms", "p95 ms", "within 5 x %", "gap p95 ms", "replica-s"], rows)
    for name, got in out.items():
        check_e4(run, name, got, "peers", "replica_s")
    run.check(
        "static half is worse than full in first tokens, at each load",
        all(
            statistics.median(h["ttft_p95_s"] / f["ttft_p95_s"] for h, f in zip(got["static half"], got["static full"]))
            > 1
            for got in out.values()
        ),
    )
    names = [arm for arm, _, _ in e4_arms()]
    bars = lambda key, scale: [[interval([scale * r[key] for r in got[arm]]) for got in out.values()] for arm in names]
    Figure("E4: arms over cuts of a trace, sixteen replicas at most", names, run.note).bars(
        "first token, p95, ms", list(out), bars("ttft_p95_s", 1e3)
    ).bars("replica-seconds", list(out), bars("replica_s", 1)).write(run.svg("e4"))
    return out


def one_run(run, options, start, requests, costs):
    """Of one arm; `replica_s` is time of replicas with a process, loading included."""
    # Nobody is turned away: who waits for a load of 13 s is late, and counts.
    shared = ("--threads", "1", "--disaggregation", "auto", "--max-concurrent-requests", "4096")
    with Fleet(*options, *shared, costs=costs, start=start) as fleet:
        port = int(fleet.url.rsplit(":", 1)[1])
        done, counts, since = threading.Event(), [], {}

        def count():
            while not done.wait(0.1):
                now, shards = time.monotonic(), fleet.shards()
                counts.append(len(shards))
                for replica, pid in shards.items():
                    if since.setdefault((replica, pid), now) + LOOKED_S < now:
                        fleet.keep_copies([replica])

        counter = threading.Thread(target=count)
        began = time.monotonic()
        counter.start()
        try:
            answers = replay(port, requests)
        finally:
            done.set()
            counter.join()
        out = figures(answers)
        alone = statistics.mean(costs.step + costs.prompt_token * n_in for _, n_in, _ in requests)
        out["attained"] = sum(a.first <= 5 * alone for a in answers) / len(answers)
        out["replica_s"] = statistics.mean(counts) * (time.monotonic() - began)
        run.cpu(fleet.cpu_seconds())
    return out


# ---- E7: host memory


def e7(run):
    run.says(
        "real processes of models/demo, a thread each; sums of Pss of the shards; a host is a launcher of its "
        "own; nothing is emulated"
    )
    # So little that shared memory is used where it has small pages, too.
    little = lambda n: (
        "--threads",
        "1",
        "--memory-bytes-max",
        str(n * 300 << 20),
        "--kv-cache-bytes-max",
        str(n * 30 << 20),
        "--kv-handover-bytes-max",
        str(1 << 20),
    )

    def memory(fleets):
        rollups = [rollup(pid) for fleet in fleets for pid in fleet.shards().values()]
        return {"shared": sum(r["Pss_Shmem"] for r in rollups), "private": sum(r["Pss_Anon"] for r in rollups)}

    rows, pool, hosts = [], {}, {}
    for n in (2, 3) if run.quick else (2, 3, 4):
        with Fleet("--replicas", str(n), *little(n)) as fleet:
            pool[n] = memory([fleet])
        with contextlib.ExitStack() as stack:
            hosts[n] = memory([stack.enter_context(Fleet("--replicas", "1", *little(1))) for _ in range(n)])
        own = sum(hosts[n].values()) - pool[n]["private"]
        hosts[n]["weights"] = own
        rows.append(
            [
                n,
                *(
                    f"{v / 2**20:.1f}"
                    for v in (pool[n]["shared"], pool[n]["private"], sum(hosts[n].values()) - own, own)
                ),
            ]
        )
    table(["replicas or hosts", "pool: shared MiB", "private MiB", "hosts: as private MiB", "and more MiB"], rows)
    shared = [v["shared"] for v in pool.values()]
    run.check("the pool is one copy however many replicas", 0 < min(shared) and max(shared) <= 1.02 * min(shared))
    grown = [v["weights"] for v in hosts.values()]
    run.check(
        "a cache for each host grows with the hosts, above the pool", grown == sorted(grown) and grown[0] > shared[0]
    )
    Figure("E7: weights in memory", ["shared pool", "a copy for each host"], run.note).lines(
        "MiB",
        "replicas or hosts",
        [[(n, v["shared"] / 2**20) for n, v in pool.items()], [(n, v["weights"] / 2**20) for n, v in hosts.items()]],
    ).write(run.svg("e7"))
    return {"pool": pool, "hosts": hosts}


def rollup(pid):
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}


# ---- E8: failures


class Asking:
    """The same work again and again while something happens; every answer is compared with the undisturbed one."""

    def __init__(self, fleet, work, expected):
        self.fleet, self.work, self.expected = fleet, work, expected
        self.stop = threading.Event()
        self.n, self.wrong, self.broken = 0, [], []
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.ask, args=(i,)) for i in range(4)]

    def ask(self, turn):
        while not self.stop.is_set():
            turn = (turn + 1) % len(self.work)
            try:
                right = answer_of(self.fleet, *self.work[turn]) == self.expected[turn]
            except Exception as error:  # whatever a client sees is counted
                with self.lock:
                    self.broken.append(repr(error)[:200])
                time.sleep(0.05)
                continue
            with self.lock:
                self.n += 1
                if not right:
                    self.wrong.append(self.work[turn])

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()


# So few prompt tokens are computed in a second, or so it is said, that a second replica is always wanted.
SCALES = (
    "--autoscale",
    "--replicas",
    "1",
    "--replicas-max",
    "2",
    "--threads",
    "1",
    "--max-batch-size",
    "2",
    "--planner-prefill-rate",
    "20",
    "--planner-tick-ms",
    "50",
    "--planner-window-ms",
    "1000",
)
START_PAUSE_S = 10
# A service that dies five times within a minute ends the launcher.
PAUSE = 13


def idle(fleet):
    def look():
        m = fleet.metrics()
        return (
            m["tgi_kv_blocks_leased"]
            == m["tgi_kv_blocks_retiring"]
            == m["tgi_queue_size"]
            == m["tgi_batch_current_size"]
            == 0
        )

    wait_until(look, 30, lambda: f"idle: {fleet.metrics()}")


def e8(run):
    run.says(
        "real processes of models/demo, killed with SIGKILL at random phases; nothing is emulated. "
        "A chain's middle is not killed here: coxswain_peers_test does that"
    )
    draw = random.Random(run.seed)
    n_kills = 2 if run.quick else 10
    work = long_bodies()
    with Fleet("--replicas", "1", "--threads", "1") as single:
        expected = [answer_of(single, *w) for w in work]
    rows, out = [], {}
    for what, options in [
        ("source of a hand-over", ROLES),
        ("destination of a hand-over", ROLES),
        ("target of a load", SCALES),
        ("router", ROLES),
    ]:
        with Fleet(*options) as fleet:
            recovered = []
            with Asking(fleet, work, expected) as asking:
                for _ in range(n_kills):
                    time.sleep(draw.random() + (0.2 if run.quick else PAUSE))
                    recovered.append(kill(fleet, what, draw.random() * 0.3))
            idle(fleet)
            run.cpu(fleet.cpu_seconds())
            blocks = fleet.metrics()["tgi_kv_blocks_leased"]
        lost = 0 if what == "router" else len(asking.broken)
        rows.append(
            [
                what,
                n_kills,
                asking.n,
                lost,
                len(asking.wrong),
                len(asking.broken) - lost,
                shown(recovered),
                f"{max(recovered):.2f}",
                int(blocks),
            ]
        )
        out[what] = {
            "answers": asking.n,
            "lost": lost,
            "wrong": len(asking.wrong),
            "closed": len(asking.broken) - lost,
            "recovered_s": recovered,
            "first_lost": asking.broken[:1],
        }
    table(["killed", "times", "answers", "lost", "wrong", "closed", "back after s", "at most", "blocks left"], rows)
    run.check("no request is lost", all(v["lost"] == 0 for v in out.values()))
    run.check(
        "no token is lost or doubled: every answer equals the undisturbed one",
        all(v["wrong"] == 0 for v in out.values()),
    )
    # A start that failed is left alone for --planner-start-pause-ms.
    run.check(
        f"all serves again within 5 s, after a load that failed within {START_PAUSE_S} s more",
        all(max(v["recovered_s"]) < 5 + (START_PAUSE_S if what.startswith("target") else 0) for what, v in out.items()),
    )
    Figure("E8: from a kill until all serves again", ["s"], run.note).bars(
        "s, median and interval", [w.split()[0] for w in out], [[interval(v["recovered_s"]) for v in out.values()]]
    ).write(run.svg("e8"))
    return out


def kill(fleet, what, delay=0.0):
    """Seconds until as many serve as before; the target of a load is killed so long after its process is there."""
    router = what == "router"
    find = fleet.router_pid if router else lambda: fleet.shards().get(0 if what.startswith("source") else 1)
    old = wait_until(find, 60, fleet.log)
    if what.startswith("target"):
        time.sleep(delay)
    began = time.monotonic()
    os.kill(old, signal.SIGKILL)
    wait_until(
        lambda: find() not in (None, old) and fleet.is_healthy() and fleet.metrics()["tgi_replica_up"] == 2,
        60,
        fleet.log,
    )
    return time.monotonic() - began


# ---- E9: exactness


def e9(run):
    run.says(
        "real processes of models/demo; nothing is emulated. Splits of a prompt over two replicas (every k) "
        "are compared in coxswain_runner_test"
    )
    work = long_bodies()[:8] if run.quick else long_bodies()
    with Fleet("--replicas", "1", "--threads", "1") as single:
        expected = [answer_of(single, *w) for w in work]
        again = [answer_of(single, *w) for w in work]
    rows, out = [["plain, a second time", len(work), sum(a != b for a, b in zip(again, expected)), ""]], {}

    def arm(name, options, disturb):
        with Fleet(*options) as fleet:
            done, wrong, n = threading.Event(), 0, 0
            thread = threading.Thread(target=lambda: (disturb(fleet), done.set()))
            thread.start()
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                while n == 0 or not done.is_set():
                    answers = list(pool.map(lambda w: answer_of(fleet, *w), work))
                    wrong += sum(a != b for a, b in zip(answers, expected))
                    n += len(work)
            thread.join()
            moved = fleet.admin("GET", "/fleet").get("handovers", {}).get("moved", 0)
            resumed = fleet.metrics().get("tgi_request_resumes_total", 0)
            run.cpu(fleet.cpu_seconds())
        rows.append([name, n, wrong, f"{moved:.0f} handed over, {resumed:.0f} resumed"])
        out[name] = {"answers": n, "wrong": wrong, "moved": moved, "resumed": resumed}

    def command(fleet, kind, **data):
        fleet.admin("POST", "/modify_cluster_state", {"type": kind, "data": data})

    def mutate(fleet):
        for kind, old, new in [
            ("TriggerPrefillUp", [0], [1]),
            ("TriggerNormalUp", [0], [1]),
            ("TriggerDecodeUp", [1], [0]),
            ("TriggerNormalUp", [1], [0]),
        ]:
            time.sleep(0.3)
            command(fleet, kind, old_stub_indices=old, new_stub_indices=new)

    def drain(fleet):
        for replica in (0, 1):
            time.sleep(0.3)
            command(fleet, "TriggerScaleDown", stub_indices=[replica])
            time.sleep(0.3)
            command(fleet, "TriggerNormalUp", old_stub_indices=[1 - replica], new_stub_indices=[replica])

    def kill_each(fleet):
        for replica in (0, 1):
            time.sleep(0.3)
            kill(fleet, "source" if replica == 0 else "destination")

    two = ("--replicas", "2", "--threads", "1")
    arm("handed over", ROLES, lambda fleet: None)
    arm("roles changed while it runs", two, mutate)
    arm("drained while it runs", two, drain)
    arm("killed while it runs", ROLES, kill_each)
    table(["answers", "in all", "other than plain", ""], rows)
    run.check("every answer is the plain one", all(v["wrong"] == 0 for v in out.values()) and again == expected)
    run.check(
        "blocks were handed over, and sequences resumed",
        out["handed over"]["moved"] > 0 and out["killed while it runs"]["resumed"] > 0,
    )
    Figure("E9: answers compared with the plain run", ["compared", "different"], run.note).bars(
        "answers",
        [n.split()[0] for n in out],
        [[(v["answers"],) * 3 for v in out.values()], [(v["wrong"],) * 3 for v in out.values()]],
    ).write(run.svg("e9"))
    return out
