"""Experiments in simulated time (coxswain-bench-fleet-sim, coxswain-bench-zigzag)."""

import json
import math
import random
import statistics
import tempfile

from harness import check_e4, conv_trace, interval, output_of, shown, simulate, table
from plot import Figure

# What BlitzScale's experiments give for Llama-3-8B on an A100: tokens/s of prompts, a step, links of 100, 128 and 10
# Gbit/s.
LLAMA_8B = {
    "step_s": 0.005,
    "decode_s": 0.0001,
    "prompt_token_s": 1 / 15000,
    "decode_context_s": 2e-8,
    "step_prompt_tokens": 4096,
    "prefill_rate": 15000,
    "transfer_rate": 96000,
    "blocks": 30000,
    "block_tokens": 16,
    "parameter_bytes": 16e9,
    "peer_rate": 12.5e9,
    "host_rate": 16e9,
    "disk_rate": 1.25e9,
    "backlog_low_s": 0.5,
    "backlog_high_s": 0.7,
    "occupancy_low": 0.75,
    "occupancy_high": 0.95,
    "migration_low_s": 0.4,
    "migration_high_s": 0.8,
    "warm_s": 0.333,
}
ARMS = ("blitz", "serverless", "allcache", "static full", "static half")
RHO = 1.6  # of what one replica computes: between 1.4 and 1.8


def fleet_of(n, prefill, decode):
    """The arms, as names of executors and how many serve at the beginning."""
    half = {"prefill": max(1, prefill // 2), "decode": max(1, decode // 2)}
    full = {"prefill": prefill, "decode": decode}
    out = [{"name": name, "executor": name, **half} for name in ARMS[:3]]
    out += [
        {"name": "static full", "executor": "static", **full},
        {"name": "static half", "executor": "static", **half},
    ]
    return {"replicas": n, "max": prefill, "decode_max": decode, "loads_max": n, "changes_max": 8 * n, "arms": out}


def burst(n, time_l, rho):
    """Members of a burst of rho times what `n` prefill replicas compute, as long as three loads; a layer arrives in
    time_l times what one of a batch of 4,096 tokens takes. So short that every arm wants all replicas at once."""
    load = time_l * 4096 / 15000
    return {
        "seconds": 3 * load,
        "prompt_tokens_per_s": rho * n * 15000,
        **LLAMA_8B,
        "peer_rate": 16e9 / load,
        "host_rate": 20.5e9 / load,
        "disk_rate": 1.6e9 / load,
        "down_cooldown_s": 600,
        "warm_s": 600,
        "backlog_low_s": 0.05,
        "backlog_high_s": 0.1,
        "migration_low_s": 0,
        "migration_high_s": 9,
    }


def cut_of_trace(seed):
    """Another piece of a trace for each seed, with its own ups and downs."""
    return {"trace": str(conv_trace()), "from_s": 100 * seed}


def simulate_at_random(scenario, seed):
    """With arrivals at random at `prompt_tokens_per_s`, over `seconds`, and the lengths of a trace."""
    lengths = lengths_of(conv_trace())
    draw, at = random.Random(seed), 0.0
    per_s = scenario["prompt_tokens_per_s"] / statistics.mean(n_in for n_in, _ in lengths)
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as trace:
        trace.write("arrival_s,input_tokens,output_tokens\n")
        while (at := at + draw.expovariate(per_s)) < scenario["seconds"]:
            n_in, n_out = draw.choice(lengths)
            trace.write(f"{at:.6f},{n_in},{n_out}\n")
        trace.flush()
        members = {k: v for k, v in scenario.items() if k not in ("seconds", "prompt_tokens_per_s")}
        return simulate({**members, "trace": trace.name, "exact": 1}, seed)


def lengths_of(path, input_max=4095):
    """[(tokens of a prompt, of its answer)] of a trace."""
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    return [(min(input_max, int(n_in)), int(n_out)) for _, n_in, n_out in rows if int(n_in) > 0 and int(n_out) > 0]


def e3(run):
    run.says(
        "simulation: known times, the policies of fleet/plan/zigzag.h; and the whole fleet's planner "
        f"with a burst over one replica, arrivals at random at {RHO} of what it computes"
    )
    rows, ratios, live = [], {}, {}
    for time_l in (3, 6, 12):
        done = output_of("coxswain-bench-zigzag", f"--load={time_l}", "--batches=40")
        got = json.loads(done)
        by_end = {arm: got[arm]["by_end_of_load"] for arm in got}
        ratios[time_l] = (by_end["zigzag"] / by_end["stop"], by_end["best_effort"] / by_end["stop"])
        rows.append(
            [
                time_l,
                by_end["zigzag"],
                by_end["stop"],
                by_end["best_effort"],
                f"{ratios[time_l][0]:.2f}",
                f"{ratios[time_l][1]:.2f}",
                f"{got['zigzag']['mean'] / got['stop']['mean']:.2f}",
            ]
        )
    table(
        [
            "load / run of a layer",
            "done: zigzag",
            "stop",
            "best effort",
            "zigzag/stop",
            "best/stop",
            "mean zigzag/stop",
        ],
        rows,
    )
    run.check("zigzag/stop >= 1.6 at 6", ratios[6][0] >= 1.6)
    run.check("best effort/stop <= 1.15", all(r[1] <= 1.15 for r in ratios.values()))
    print()
    for time_l in (3, 6, 12):
        base = {
            "replicas": 3,
            "prefill": 1,
            "decode": 1,
            "max": 2,
            "decode_max": 1,
            "arms": [
                {"name": "live", "executor": "blitz"},
                {"name": "stop", "executor": "blitz", "live": 0},
                {"name": "disk", "executor": "serverless", "host_ttl_s": 0, "per_machine": 1},
            ],
        }
        scenario = {**burst(1, time_l, RHO), **base}
        runs = by_seed(run, lambda seed: simulate_at_random(scenario, seed))
        live[time_l] = {arm: [r[arm]["ttft_mean_s"] for r in runs] for arm in ("live", "stop", "disk")}
        live[time_l]["p95"] = {arm: [r[arm]["ttft_p95_s"] for r in runs] for arm in ("live", "stop", "disk")}
    ratio = lambda l, a, b: [x / y for x, y in zip(live[l][a], live[l][b])]
    table(
        [
            f"burst of {RHO} over one replica",
            "mean first token, live s",
            "stop s",
            "disk s",
            "live/stop",
            "live/disk",
            "p95 live/stop",
        ],
        [
            [
                f"load / run {l}",
                *(shown(live[l][a]) for a in ("live", "stop", "disk")),
                shown(ratio(l, "live", "stop")),
                shown(ratio(l, "live", "disk")),
                shown([x / y for x, y in zip(live[l]["p95"]["live"], live[l]["p95"]["stop"])]),
            ]
            for l in live
        ],
    )
    middle = {
        l: (
            statistics.median(ratio(l, "live", "stop")),
            statistics.median(x / y for x, y in zip(live[l]["p95"]["live"], live[l]["p95"]["stop"])),
        )
        for l in live
    }
    run.check("live/stop <= 0.75 in the mean at 3, 6 and 12", all(mean <= 0.75 for mean, _ in middle.values()))
    run.check("and in the 95th percentile", all(p95 <= 0.75 for _, p95 in middle.values()))
    run.check("live/disk <= 0.30 in the mean", all(statistics.median(ratio(l, "live", "disk")) <= 0.30 for l in live))
    Figure("E3: live, stop the world, best effort", ["zigzag / stop", "best effort / stop"], run.note).lines(
        "batches done by the end of the load, over those of a stop",
        "load / run of a layer",
        [[(l, r[i]) for l, r in ratios.items()] for i in (0, 1)],
    ).write(run.svg("e3"))
    return {"done": ratios, "burst": live}


def by_seed(run, simulated):
    """Of each seed the arms by name."""
    return [{a["name"]: a for a in simulated(seed)["arms"]} for seed in range(1, 6 if run.quick else 21)]


def e5(run):
    run.says(
        "simulation of 16 replicas, 2 + 2 at first and 10 + 6 at most, in a burst of 0.8 of what 10 "
        "compute; bandwidth of peers : host memory : disk = 1 : 1.28 : 0.1"
    )
    steps = [
        ("serverless", {"executor": "serverless", "host_ttl_s": 0, "per_machine": 1}),
        ("+ network", {"executor": "blitz", "live": 0, "multicast": 0}),
        ("+ multicast", {"executor": "blitz", "live": 0}),
        ("+ zigzag", {"executor": "blitz"}),
    ]
    out, rows = {}, []
    for time_l in (3, 6, 12):
        base = {
            **fleet_of(16, 10, 6),
            "arms": [{"name": name, "prefill": 2, "decode": 2, **arm} for name, arm in steps],
        }
        runs = by_seed(run, lambda seed: simulate({**cut_of_trace(seed), **burst(10, time_l, 0.8), **base}, seed))
        out[time_l] = {name: [r[name]["ttft_mean_s"] for r in runs] for name, _ in steps}
        for name, _ in steps:
            rows.append(
                [
                    f"load / run {time_l}: {name}",
                    shown([1e3 * v for v in out[time_l][name]]),
                    shown([1e3 * r[name]["ttft_p95_s"] for r in runs]),
                    shown([r[name]["load_mean_s"] for r in runs]),
                    shown([r[name]["loads"] for r in runs]),
                ]
            )
    middle = lambda time_l, name: statistics.median(out[time_l][name])
    # From one source, the only decode replica, to so many at once.
    gain = {}
    for n in (1, 2, 3):
        base = {
            "replicas": 2 + n,
            "prefill": 1,
            "decode": 1,
            "max": 1 + n,
            "decode_max": 1,
            "arms": [{"name": name, **arm} for name, arm in steps[1:3]],
        }
        runs = by_seed(run, lambda seed: simulate({**cut_of_trace(seed), **burst(1 + n, 12, 0.8), **base}, seed))
        gain[n] = [r["+ multicast"]["ttft_mean_s"] / r["+ network"]["ttft_mean_s"] for r in runs]
        rows.append(
            [
                f"mean with / without multicast, {n} to load at 12",
                shown(gain[n]),
                "",
                "",
                shown([r["+ network"]["loads"] for r in runs]),
            ]
        )
    table(["arm", "first token, mean ms", "p95 ms", "load, mean s", "loads"], rows)
    names = [name for name, _ in steps]
    run.check(
        "each step is better than the one before, at each load",
        all(middle(l, b) <= middle(l, a) for l in out for a, b in zip(names, names[1:])),
    )
    one, three = (statistics.median(gain[n]) for n in (1, 3))
    run.check(
        f"multicast matters where 3 load at once ({three:.2f} of the mean without), not where one does ({one:.2f})",
        three <= 0.95 < one,
    )
    gains = [middle(l, "+ multicast") - middle(l, "+ zigzag") for l in out]
    run.check("what zigzag gains grows with the time of a load", gains == sorted(gains))
    Figure("E5: what each part adds", names, run.note).bars(
        "first token, mean ms",
        [f"load / run {l}" for l in out],
        [[interval([1e3 * v for v in out[l][n]]) for l in out] for n in names],
    ).write(run.svg("e5"))
    return {"arms": out, "multicast": gain}


def e6(run):
    run.says(
        "simulation of 16 replicas in a burst; keys and values and parameters share a replica's link of 2.5 GB/s evenly"
    )
    base = {**fleet_of(16, 10, 6), "live": 0}
    base["arms"] = [
        {"name": name, "executor": "blitz", "prefill": 4, "decode": 4, "avoid_interference": avoid}
        for name, avoid in (("from decode", 1), ("from busy prefill", 0))
    ]
    # 16 GB take 6.4 s. A token has 128 KiB of keys and values: those of a busy replica are 3/4 of its link.
    scenario = {**burst(10, 23.5, 0.8), **base, "peer_rate": 2.5e9, "transfer_rate": 19500}
    runs = by_seed(run, lambda seed: simulate({**cut_of_trace(seed), **scenario}, seed))
    of = lambda name, key: [r[name][key] for r in runs]
    names = ("from decode", "from busy prefill")
    table(
        ["source", "load, mean s", "hand-over, p95 s", "first token, p95 s"],
        [[n, shown(of(n, "load_mean_s")), shown(of(n, "handover_p95_s")), shown(of(n, "ttft_p95_s"))] for n in names],
    )
    ratio = statistics.median(b / a for a, b in zip(of(names[0], "load_mean_s"), of(names[1], "load_mean_s")))
    tail = statistics.median(b / a for a, b in zip(of(names[0], "handover_p95_s"), of(names[1], "handover_p95_s")))
    run.check(f"a busy source takes 1.3 times as long ({ratio:.2f})", ratio >= 1.3)
    run.check(f"and puts 25 % on the gap at the hand-over ({tail:.2f})", tail >= 1.25)
    Figure("E6: parameters from a decode replica, and from a busy prefill replica", names, run.note).bars(
        "s", ["load", "hand-over p95"], [[interval(of(n, k)) for k in ("load_mean_s", "handover_p95_s")] for n in names]
    ).write(run.svg("e6"))
    return {n: {k: of(n, k) for k in ("load_mean_s", "handover_p95_s")} for n in names}


# Five minutes each, from these seconds on; the first two are those of --quick.
BURSTS = (180, 840, 1400, 560, 1100, 1700)
STEADY = (60, 1000, 500, 1400)
# A trace's mean, of the prompt tokens that ten replicas compute. Bursts of `code` are ten times as high and more: at
# 0.15 static full has too few for them.
PARTS = [("code", 0.05, BURSTS), ("code", 0.1, BURSTS), ("code", 0.15, BURSTS), ("conv", 0.3, STEADY)]


def e4_simulated(run):
    run.says(
        "simulation of 16 replicas, each a machine of its own, 1 + 1 at least and 10 + 6 at most, on cuts of 5 minutes, "
        "prompts apart where less is lost (--disaggregation auto); "
        "bandwidth of peers : host memory : disk = 1 : 1.28 : 0.1, a load from peers 1.3 s"
    )
    fleet = fleet_of(16, 10, 6)
    for arm in fleet["arms"][:3]:
        arm.update(prefill=1, decode=1)
    fleet["arms"].append({"name": "blitz 4 + 1", "executor": "blitz", "prefill": 4, "decode": 1, "min": 4})
    names = [arm["name"] for arm in fleet["arms"]]
    out, rows = {}, []
    for trace, share, begins in PARTS:
        path = conv_trace().with_name(f"azure_2023_{trace}.csv")
        alone = [LLAMA_8B["step_s"] + LLAMA_8B["prompt_token_s"] * n_in for n_in, _ in lengths_of(path)]
        scenario = {
            "trace": str(path),
            "seconds": 300,
            "input_max": 4095,
            "prompt_tokens_per_s": share * 10 * LLAMA_8B["prefill_rate"],
            **LLAMA_8B,
            **fleet,
            "auto_apart": 1,
            "per_machine": 1,
            "ttft_limit_s": 5 * statistics.mean(alone),
        }
        cuts = begins[:2] if run.quick else begins
        part = f"{trace} {share}"
        out[part] = [{a["name"]: a for a in simulate({**scenario, "from_s": at}, run.seed)["arms"]} for at in cuts]
        for arm in names:
            of = lambda key: [r[arm][key] for r in out[part]]
            seconds = [shown(of(f"ttft_{which}_s")) for which in ("mean", "p95")]
            within = shown([100 * v for v in of("attained")])
            gap = shown([1e3 * v for v in of("gap_p95_s")])
            rows.append([f"{part}: {arm}", within, *seconds, gap, shown(of("replica_hours")), shown(of("loads"))])
    table(["trace, load: arm", "within 5 x %", "first mean s", "p95 s", "gap p95 ms", "replica-hours", "loads"], rows)
    for part in ("code 0.05", "code 0.1"):
        of_arm = {arm: [r[arm] for r in out[part]] for arm in names}
        check_e4(run, part, of_arm, "blitz", "replica_hours")
    bars = lambda key: [[interval([r[arm][key] for r in runs]) for runs in out.values()] for arm in names]
    Figure("E4, simulated: 16 replicas", names, run.note).bars(
        "first token, p95, s", list(out), bars("ttft_p95_s")
    ).bars("replica-hours", list(out), bars("replica_hours")).write(run.svg(run.name))
    return out


# ---- when to disaggregate

# The shape of Llama-3.2-1B in int8 on 2 cores (bench/step_costs.h, amx).
LLAMA_1B = {
    "step_s": 0.0442,
    "decode_s": 0.000467,
    "prompt_token_s": 0.000655,
    "decode_context_s": 1.4e-6,
    "prompt_context_s": 0.638e-6,
}


def prompt_seconds(costs, n, chunk=256):
    return (
        costs["step_s"] * math.ceil(n / chunk)
        + costs["prompt_token_s"] * n
        + costs["prompt_context_s"] * n * (n + 1) / 2
    )


def apart(run):
    run.says(
        "simulation of 4 replicas, arrivals at random at 0.7 of what they can do at most, all alike; "
        "costs of the shape of Llama-3.2-1B in int8 on 2 cores (bench/step_costs.h, amx); "
        "keys and values at 50,000 tokens/s; splits are prefill + decode"
    )
    splits = [("mixed", 4, 0), ("1 + 3", 1, 3), ("2 + 2", 2, 2), ("3 + 1", 3, 1)]
    rows, out = [], {}
    for n_in, n_out in [(100, 20), (100, 200), (500, 200), (1000, 20), (1000, 200), (3000, 20), (3000, 300)]:
        share = (
            LLAMA_1B["step_s"] / 16 + LLAMA_1B["decode_s"] + LLAMA_1B["decode_context_s"] * (n_in + n_out / 2)
        )  # of a batch of 16
        rate = 0.7 * 4 / (prompt_seconds(LLAMA_1B, n_in) + n_out * share)
        scenario = {
            "exact": 1,
            **LLAMA_1B,
            "blocks": 16000,
            "block_tokens": 16,
            "batch_max": 64,
            "transfer_rate": 50000,
            "replicas": 4,
            "arms": [
                {"name": name, "executor": "static", "prefill": p, "decode": d, "mixed": int(d == 0)}
                for name, p, d in splits
            ],
        }
        runs = []
        for seed in range(1, 3 if run.quick else 6):
            with tempfile.NamedTemporaryFile("w", suffix=".csv") as trace:
                draw, at = random.Random(seed), 0.0
                trace.write("arrival_s,input_tokens,output_tokens\n")
                while at < 600:
                    at += draw.expovariate(rate)
                    trace.write(f"{at:.4f},{n_in},{n_out}\n")
                trace.flush()
                runs.append({a["name"]: a for a in simulate({**scenario, "trace": trace.name}, seed)["arms"]})
        of = lambda name, key: statistics.median(r[name][key] for r in runs)
        out[f"{n_in}, {n_out}"] = {
            name: {k: of(name, k) for k in ("ttft_p50_s", "ttft_p95_s", "gap_p50_s", "gap_p95_s")}
            for name, _, _ in splits
        }
        rows.append(
            [f"{n_in}, {n_out}", *(f"{of(n, 'ttft_p95_s'):.2f} / {1e3 * of(n, 'gap_p95_s'):.0f}" for n, _, _ in splits)]
        )
    table(["prompt, answer; first p95 s / gap p95 ms", *(n for n, _, _ in splits)], rows)
    Figure("Four replicas, alike or split", [n for n, _, _ in splits], run.note).bars(
        "gap, p95, ms", list(out), [[(1e3 * w[n]["gap_p95_s"],) * 3 for w in out.values()] for n, _, _ in splits]
    ).write(run.svg("apart"))
    return out


# ---- a day


def day(run):
    n = 100 if run.quick else 1000
    fit = run.fit or {
        **LLAMA_1B,
        "load_s": 3.0,
        "transfer_rate": 50000,
        "source": "bench/step_costs.h, amx: the shape of Llama-3.2-1B in int8 on 2 cores",
    }
    run.says(
        f"simulation of {n} replicas over 22 h (genai_service_per_minute.csv, lengths of azure_2023_conv.csv); "
        f"costs measured: {fit['source']}; "
        f"a load of {fit['load_s']} s from peers, 0.78 times that from host memory, 10 times from disk"
    )
    costs = {
        k: fit[k]
        for k in ("step_s", "decode_s", "prompt_token_s", "decode_context_s", "prompt_context_s", "transfer_rate")
    }
    prefill, decode = n * 5 // 10, n - n * 5 // 10
    mean_in = 1201
    mean_alone_s = statistics.mean(prompt_seconds(costs, n_in) for n_in, _ in lengths_of(conv_trace()))
    # Of the highest minute: what 9 of 10 prefill replicas compute.
    prompt_s = prompt_seconds(costs, mean_in)
    peak = 0.9 * prefill / prompt_s
    base = {
        "trace": str(conv_trace()),
        "rates": str(conv_trace().with_name("genai_service_per_minute.csv")),
        "peak_per_s": peak,
        "input_max": 4095,
        **costs,
        "layers": 16,
        "step_prompt_tokens": 256,
        "batch_max": 64,
        "blocks": 16000,
        "block_tokens": 16,
        "prefill_rate": mean_in / prompt_s,
        "parameter_bytes": 1.0,
        "peer_rate": 1 / fit["load_s"],
        "host_rate": 1 / (0.78 * fit["load_s"]),
        "disk_rate": 0.1 / fit["load_s"],
        "host_ttl_s": 300,
        "tick_s": 1,
        "window_s": 30,
        "warm_s": 30,
        "down_cooldown_s": 5,
        "ttft_limit_s": 5 * mean_alone_s,
        "sample_s": 600,
        **fleet_of(n, prefill, decode),
    }
    for arm in base["arms"][:3]:
        arm.update(prefill=max(1, n // 50), decode=max(1, n // 50))
    got = simulate(base, run.seed)
    table(
        [
            "executor",
            "within limit %",
            "first mean s",
            "p50 s",
            "p95 s",
            "replica-hours",
            "loads",
            "roles",
            "wall s",
            "CPU s",
        ],
        [
            [
                a["name"],
                f"{100 * a['attained']:.2f}",
                f"{a['ttft_mean_s']:.2f}",
                f"{a['ttft_p50_s']:.2f}",
                f"{a['ttft_p95_s']:.2f}",
                f"{a['replica_hours']:.0f}",
                a["loads"],
                a["role_changes"],
                f"{a['wall_s']:.0f}",
                f"{a['cpu_s']:.0f}",
            ]
            for a in got["arms"]
        ],
    )
    print(
        f"{got['requests']} requests, a first token within {5 * mean_alone_s:.1f} s counts, 5 times the mean of prompts "
        f"alone, {peak:.0f} requests/s in the highest minute"
    )
    arms = {a["name"]: a for a in got["arms"]}
    run.check(
        "every request has ended, in every arm",
        all(a["finished"] == got["requests"] and a["left"] == 0 for a in got["arms"]),
    )
    run.check(
        "blitz: at most 0.6 of static full's replica-hours",
        arms["blitz"]["replica_hours"] <= 0.6 * arms["static full"]["replica_hours"],
    )
    run.check("blitz: 99 % within the limit", arms["blitz"]["attained"] >= 0.99)
    hours = lambda key: [[(i / 6, s[key]) for i, s in enumerate(a["samples"])] for a in got["arms"]]
    share = [[(i / 6, s[2] / s[1] if s[1] else 1.0) for i, s in enumerate(a["samples"])] for a in got["arms"]]
    Figure(f"A day on {n} simulated replicas", ARMS, run.note).lines("replicas", "hour", hours(0)).lines(
        "first tokens within the limit", "hour", share
    ).write(run.svg("day"))
    for arm in got["arms"]:
        del arm["samples"]
    return got
