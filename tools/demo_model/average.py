"""Averages the weights of checkpoints that lie on one path of training.

    python average.py --checkpoints end-of-7 end-of-8 end-of-9 --shares 0.2 0.3 0.5 --out averaged

Schedules that end on other shares of the tasks forget a little of what the ones before them weighted; weights between their ends keep both (Izmailov et
al., 2018, "Averaging Weights Leads to Wider Optima and Better Generalization"). The result is for export.py: it has no state of the optimisers.
"""

import argparse
import json
import pathlib

import torch


def average(states, shares):
    """Tensors by name, each the sum of the states' tensors times their shares, in f32."""
    return {name: sum(share * state[name].float() for state, share in zip(states, shares, strict=True)) for name in states[0]}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--checkpoints", type=pathlib.Path, nargs="+", required=True, help="folders, in the order of training")
    p.add_argument("--shares", type=float, nargs="+", required=True, help="one for each, 1 in all")
    p.add_argument("--out", type=pathlib.Path, required=True)
    a = p.parse_args()
    if len(a.shares) != len(a.checkpoints) or abs(sum(a.shares) - 1) > 1e-6:
        p.error(f"--shares needs {len(a.checkpoints)} numbers with the sum 1, not {a.shares}")
    saved = [torch.load(folder / "checkpoint.pt", map_location="cpu") for folder in a.checkpoints]
    if any(one["config"] != saved[0]["config"] for one in saved):
        p.error("--checkpoints are of models of different shapes")
    a.out.mkdir(parents=True, exist_ok=True)
    # Training went on from each to the next, so the last one's counts are those of all.
    torch.save({"config": saved[-1]["config"], "model": average([one["model"] for one in saved], a.shares), "place": saved[-1]["place"]},
               a.out / "checkpoint.pt")
    (a.out / "config.json").write_text(json.dumps(saved[-1]["config"], indent=2) + "\n")
    print(f"{len(saved)} checkpoints averaged into {a.out}")


if __name__ == "__main__":
    main()
