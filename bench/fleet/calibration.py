"""The simulator and this machine: how far a simulation is off from fleets that run, and what a model costs here."""

import dataclasses
import pathlib
import re
import statistics
import tempfile
import time

from harness import Costs, Fleet, budgets, conv_trace, cut, figures, output_of, planner, replay, simulate, table

# Longer than the planner looks back, so that it begins with nothing in both.
LEAD = 4.5
# What a paced start takes beyond its pace: a process, its model.
PROCESS_S = 0.12


def check_cases(slow):
    """(name, options of the launcher, members of the scenario, executor)."""
    static = lambda n: ({"mixed": 1, "replicas": n, "prefill": n, "decode": 0, "min": n, "max": n}, "static")
    start = slow + PROCESS_S
    scaled = {
        "mixed": 1,
        "replicas": 3,
        "prefill": 1,
        "decode": 0,
        "min": 1,
        "max": 3,
        "tick_s": 0.1 * slow,
        "window_s": 4 * slow,
        "down_cooldown_s": 2 * slow,
        "warm_s": 2 * slow,
        "backlog_low_s": 0.1 * slow,
        "backlog_high_s": 0.25 * slow,
        "prefill_rate": 1800 // slow,
        "parameter_bytes": start,
        "host_rate": 1.0,
    }
    apart = ("--replicas", "2", "--roles", "prefill=1,decode=1")
    pair = {"replicas": 2, "prefill": 1, "decode": 1, "transfer_rate": 4000, "max": 1, "decode_max": 1}
    return [
        ("1 replica", ("--replicas", "1"), *static(1)),
        ("2 replicas", ("--replicas", "2"), *static(2)),
        ("3 replicas", ("--replicas", "3"), *static(3)),
        ("1 prefill, 1 decode", apart, pair, "static"),
        ("the same, auto", (*apart, "--disaggregation", "auto"), {**pair, "auto_apart": 1}, "static"),
        (
            "1 to 3, scaled",
            (
                "--autoscale",
                "--replicas",
                "1",
                "--replicas-max",
                "3",
                "--planner-start-ms",
                str(round(1e3 * start)),
                *planner(slow),
            ),
            scaled,
            "allcache",
        ),
    ]


def check(run):
    costs = Costs(*(seconds * run.slow for seconds in dataclasses.astuple(Costs())))
    run.says(
        f"emulation against simulation: steps computed by models/demo, paced to {costs}; {budgets()}; "
        "the same costs simulated, and what a lone request needs besides"
    )
    seconds = 15 if run.quick else 40
    rows, out, worst = [], {}, 0.0
    for name, options, members, executor in check_cases(run.slow):
        scaled = executor != "static"
        requests = [
            [(run.slow * at, n_in, n_out) for at, n_in, n_out in cut(conv_trace(), 100 + 300 * n, seconds, 0.25, 1.0)]
            for n in range(run.rounds)
        ]
        got, made, alone = [], [], []
        for n, part in enumerate(requests):
            with Fleet(
                *options, "--threads", "1", costs=costs, start=(run.slow, run.slow, 1e9) if scaled else None
            ) as fleet:
                port = int(fleet.url.rsplit(":", 1)[1])
                alone.append(lone(port, costs))
                time.sleep(LEAD * run.slow)
                got.append(figures(replay(port, part)))
                run.cpu(fleet.cpu_seconds())
            lead = LEAD * run.slow
            with tempfile.NamedTemporaryFile("w", suffix=".csv") as trace:
                trace.write(
                    "arrival_s,input_tokens,output_tokens\n"
                    + "".join(f"{at:.6f},{n_in},{n_out}\n" for at, n_in, n_out in part)
                )
                trace.flush()
                sim = simulate(
                    {
                        "trace": trace.name,
                        "lead_s": lead,
                        "exact": 1,
                        **costs.scenario(),
                        "blocks": 100000,
                        "block_tokens": 16,
                        **members,
                        "request_s": statistics.median(alone),
                        "arms": [{"name": name, "executor": executor}],
                    }
                )
            arm = sim["arms"][0]
            made.append({**arm, "tokens_per_s": sim["output_tokens"] / (arm["duration_s"] - lead)})
        row, out[name] = [name], {}
        for key, scale in (
            ("ttft_p50_s", 1e3),
            ("ttft_p95_s", 1e3),
            ("gap_p50_s", 1e3),
            ("gap_p95_s", 1e3),
            ("tokens_per_s", 1),
        ):
            real, sim = (statistics.median(r[key] for r in runs) for runs in (got, made))
            off = sim / real - 1
            row.append(f"{scale * real:.0f} / {scale * sim:.0f} ({100 * off:+.0f} %)")
            out[name][key] = [real, sim]
            worst = max(worst, abs(off))
        rows.append(row)
    table(["real / simulated", "first p50 ms", "first p95 ms", "gap p50 ms", "gap p95 ms", "tokens/s"], rows)
    within = [abs(sim / real - 1) <= 0.15 for figures_ in out.values() for real, sim in figures_.values()]
    run.check(f"within 15 %: {sum(within)} of {len(within)}, the worst {100 * worst:.0f} %", all(within))
    return out


def lone(port, costs):
    """What a lone request takes beyond its steps: HTTP, validation, sockets. Seconds."""
    took = []
    for n in range(5):
        took.append(replay(port, [(0.0, 100 + n, 2)])[0].first - costs.step - costs.prompt_token * (100 + n))
    return statistics.median(took)


def measure(run, model):
    """Costs of a model folder: steps, load, hand-over; what `day --fit` reads."""
    model = pathlib.Path(model).resolve()  # programs run in folders of their own
    run.says(f"measured on this machine: {model}")
    fit = output_of("coxswain-bench-runner", model, "--only", "fit", "--batch", "8")
    numbers = re.search(r"StepCosts\{NAME, ([\d.e+-]+), ([\d.e+-]+), ([\d.e+-]+), ([\d.e+-]+), ([\d.e+-]+)\}", fit)
    names = ("step_s", "decode_s", "prompt_token_s", "decode_context_s", "prompt_context_s")
    out = dict(zip(names, map(float, numbers.groups())))
    moved = output_of("coxswain-bench-handover", model, "--tokens", "400", "--shards", "memory")
    out["transfer_rate"] = 400 / (float(re.search(r"hand-over up to the commit +([\d.]+) ms", moved)[1]) / 1e3)
    with Fleet(
        "--autoscale",
        "--replicas",
        "1",
        "--replicas-max",
        "2",
        "--threads",
        "1",
        *planner(prefill_rate=10),
        model=model,
    ) as fleet:
        port = int(fleet.url.rsplit(":", 1)[1])
        replay(port, [(0.0, 400, 30)] * 8)
        took = re.search(r"a replica has been started.*took_ms=(\d+)", fleet.out())
    out["load_s"] = int(took[1]) / 1e3 if took else float("nan")
    out["source"] = f"{model}: {fit.splitlines()[-2]}" if len(fit.splitlines()) > 1 else str(model)
    table(["cost", "value"], out.items())
    return out
