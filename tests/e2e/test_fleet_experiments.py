"""coxswain-bench-fleet: what it writes, its quick exactness over real processes, and that a simulation is repeated by its seed."""

import json
import os
import subprocess
import sys
import xml.dom.minidom

import pytest

from demo import ROOT
from launcher import BIN

PACED = BIN / "coxswain-bench-paced-server"
SIMULATOR = BIN / "coxswain-bench-fleet-sim"
needs_simulator = pytest.mark.skipif(not SIMULATOR.exists(), reason=f"{SIMULATOR} is not built")


def experiment(folder, *words):
    environment = {**os.environ, "COXSWAIN_BIN_DIR": str(BIN)}
    return subprocess.run([sys.executable, ROOT / "bench/fleet/coxswain-bench-fleet", *words, "--quick", "--out", folder], env=environment,
                          capture_output=True, text=True, timeout=300)


def document_of(folder, run, name):
    """What it wrote: with a table, checks that are those of its output, times, and a figure that is XML."""
    assert (folder / f"{name}.json").exists(), run.stdout + run.stderr
    document = json.loads((folder / f"{name}.json").read_text())
    assert f"== {name}\n{document['what']}\n" in run.stdout and "\n---" in run.stdout
    assert document["checks"] and document["figures"] and document["wall_s"] > 0 and document["cpu_s"] > 0
    for check in document["checks"]:
        assert f"{'holds' if check['holds'] else 'FAILS'}: {check['what']}\n" in run.stdout
    assert len(xml.dom.minidom.parse(str(folder / f"{name}.svg")).getElementsByTagName("rect")) > 1
    return document


def test_answers_are_the_plain_ones_whatever_happens_to_replicas(tmp_path):
    run = experiment(tmp_path, "e9")
    assert run.returncode == 0, run.stdout + run.stderr
    document = document_of(tmp_path, run, "e9")
    assert all(check["holds"] for check in document["checks"])
    assert {arm: figures["wrong"] for arm, figures in document["figures"].items()} == dict.fromkeys(document["figures"], 0)
    assert document["cpu_of"]["router"] > 0 and document["cpu_of"]["shards"] > 0


@pytest.mark.skipif(not PACED.exists(), reason=f"{PACED} is not built")
def test_a_burst_while_a_replica_loads_is_told_of_each_arm(tmp_path):
    run = experiment(tmp_path, "live")
    document = document_of(tmp_path, run, "live")
    assert run.returncode == (0 if all(check["holds"] for check in document["checks"]) else 1), run.stdout + run.stderr
    assert document["checks"][-1]["holds"], run.stdout + run.stderr
    for arms in document["figures"]["runs"].values():
        assert all(0 < figures["ttft_p50_s"] <= figures["ttft_p99_s"] <= figures["gone_s"] for runs in arms.values() for figures in runs)
        assert arms["live"][0]["first_layers"]["layers"] > 0 and arms["stop"][0]["divided"]["moved"] == 0
    assert document["cpu_of"]["router"] > 0 and document["cpu_of"]["shards"] > 0


@needs_simulator
def test_simulated_experiments_write_tables_checks_and_figures(tmp_path):
    names = ("e5", "e6", "e4-simulated")
    run = experiment(tmp_path, *names)
    if "skipped: no reference data" in run.stdout:
        pytest.skip("no reference data with traces")
    held = [check["holds"] for name in names for check in document_of(tmp_path, run, name)["checks"]]
    assert run.returncode == (0 if all(held) else 1), run.stdout + run.stderr


def test_an_unknown_experiment_is_refused_by_name(tmp_path):
    run = experiment(tmp_path, "e10")
    assert run.returncode == 2 and "no experiment `e10`" in run.stderr and "e9" in run.stderr


@needs_simulator
def test_a_simulation_is_repeated_by_its_seed(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,input_tokens,output_tokens\n" + "".join(f"{i / 20},{100 + 37 * i % 900},{1 + i % 50}\n" for i in range(400)))
    scenario = {"trace": str(trace), "prompt_tokens_per_s": 60000, "replicas": 8, "prefill": 2, "decode": 2, "parameter_bytes": 16e9, "max": 6,
                "decode_max": 6, "arms": [{"name": name, "executor": name} for name in ("blitz", "serverless", "allcache", "static")]}
    path = tmp_path / "scenario.json"

    def figures(seed, **more):
        path.write_text(json.dumps({**scenario, **more}))
        run = subprocess.run([SIMULATOR, path, f"--seed={seed}"], capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stderr
        out = json.loads(run.stdout)
        assert all(arm["finished"] == out["requests"] and arm["left"] == arm["refused"] == 0 for arm in out["arms"])
        return [{k: v for k, v in arm.items() if k not in ("wall_s", "cpu_s")} for arm in out["arms"]]

    assert figures(1) == figures(1) != figures(2)
    assert figures(1, mixed=1, prefill=4, decode=0) != figures(1)
    for wrong, named in [({"replcas": 8}, "replcas"), ({"seconds": "x"}, "seconds"), ({"trace": str(tmp_path / "none")}, "none"),
                         ({"arms": [{"name": "a", "executor": "x"}]}, "executor"), ({"prefill": 9}, "prefill")]:
        path.write_text(json.dumps({**scenario, **wrong}))
        run = subprocess.run([SIMULATOR, path], capture_output=True, text=True, timeout=60)
        assert run.returncode == 1 and named in run.stderr, run
