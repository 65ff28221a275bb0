"""text-generation-benchmark against a shard that no router uses."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

from demo import CONTEXT, MODEL
from launcher import BIN, START_SECONDS
from process_tree import wait_until

SMALL = ("--batch-size", "3", "-b", "1", "--sequence-length", "12", "--decode-length", "5", "--runs", "4", "--warmups", "0")


@pytest.fixture(scope="module")
def shard():
    """The socket of a shard of the demo model."""
    # Directly below /tmp: paths of Unix sockets must be short.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cx-e2e-", dir="/tmp"))
    with open(folder / "log", "w") as log:
        process = subprocess.Popen([BIN / "text-generation-server", "serve", MODEL, "--uds-path", folder / "shard"], stdout=log, stderr=log)
    try:
        wait_until((folder / "shard-0").exists, START_SECONDS, lambda: (folder / "log").read_text())
        yield folder / "shard-0"
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


def run(socket, *words, model=MODEL, **variables):
    command = [BIN / "text-generation-benchmark", "--tokenizer-name", model, "--master-shard-uds-path", socket, *words]
    return subprocess.run(command, env={"PATH": os.environ["PATH"], **variables}, capture_output=True, text=True, timeout=120)


def tables(text):
    """Each Markdown table as a list of rows of cells, its head first; a cell that is empty is that of the row above."""
    found = []
    for block in text.split("\n\n"):
        lines = block.strip().splitlines()
        assert len({len(line) for line in lines}) == 1 and re.fullmatch(r"(\|-+)+\|", lines[1]), block
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:1] + lines[2:]]
        for above, row in zip(rows, rows[1:]):
            row[:] = [cell or before for cell, before in zip(row, above)]
        found.append(rows)
    return found


def numbers(cells, unit):
    assert all(re.fullmatch(r"\d+\.\d\d " + unit, cell) for cell in cells), cells
    return [float(cell.split()[0]) for cell in cells]


@pytest.mark.parametrize("protocol", ["engine", "generate.v3"])
def test_tables(shard, protocol):
    done = run(shard, *SMALL, "--top-k", "5", COXSWAIN_SHARD_PROTOCOL=protocol)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == ["batch size 3: 4 of 4 runs", "batch size 1: 4 of 4 runs"]
    parameters, latencies, throughputs = tables(done.stdout)
    assert parameters == [
        ["Parameter", "Value"], ["Model", str(MODEL)], ["Sequence Length", "12"], ["Decode Length", "5"], ["Top N Tokens", "None"],
        ["N Runs", "4"], ["Warmups", "0"], ["Temperature", "None"], ["Top K", "Some(5)"], ["Top P", "None"], ["Typical P", "None"],
        ["Repetition Penalty", "None"], ["Frequency Penalty", "None"], ["Watermark", "false"], ["Do Sample", "false"]]
    assert latencies[0] == ["Step", "Batch Size", "Average", "Lowest", "Highest", "p50", "p90", "p99"]
    assert [row[:2] for row in latencies[1:]] == [[step, size] for step in ("Prefill", "Decode (token)", "Decode (total)") for size in ("3", "1")]
    lowest = {}
    for step, size, *cells in latencies[1:]:
        average, low, high, *percentiles = numbers(cells, "ms")
        assert 0 < low <= average <= high and percentiles == sorted(percentiles) and percentiles[1:] == [high, high]
        lowest[step, size] = low
    assert throughputs[0] == ["Step", "Batch Size", "Average", "Lowest", "Highest"]
    assert [row[:2] for row in throughputs[1:]] == [[step, size] for step in ("Prefill", "Decode") for size in ("3", "1")]
    for step, size, *cells in throughputs[1:]:
        average, low, high = numbers(cells, "tokens/secs")
        assert 0 < low <= average <= high
        # The fastest run, as both tables tell it; latencies are rounded to 0.01 ms.
        n_tokens = int(size) * {"Prefill": 12, "Decode": 4}[step]
        least = lowest[{"Prefill": step, "Decode": "Decode (total)"}[step], size]
        assert n_tokens / (least + 0.0051) < high / 1000 < n_tokens / (least - 0.0051)
        if step == "Decode":
            assert lowest["Decode (token)", size] == pytest.approx(least / 4, abs=0.0101)


def test_what_is_wrong_is_named(shard, tmp_path):
    def failed(code, *words, socket=shard, **more):
        done = run(socket, *words, **more)
        assert done.returncode == code and done.stdout == "", done.stderr
        (line,) = done.stderr.splitlines()
        assert line.startswith(("text-generation-benchmark: ", "error: "))
        return line.partition(": ")[2]

    assert failed(2, "--runs", "0").startswith("`--runs` must be a whole number from 1 to 1000000 (runs), not `0`")
    assert failed(2, RUNS="many").startswith("`RUNS` must be a whole number")
    assert "did you mean `--sequence-length`?" in failed(2, "--sequence", "3")
    assert "top_p" in failed(2, "--top-p", "2")
    assert f"at most {CONTEXT} together" in failed(2, "-s", str(CONTEXT), "-d", "2")
    assert "`--batch-size` must be at most" in failed(2, "-b", "60000", "-s", "1000")
    nobody = tmp_path / "nobody-0"
    assert failed(1, socket=nobody) == f"cannot connect to {nobody}: No such file or directory"
    assert failed(3, model=tmp_path / "none").startswith("--tokenizer-name: ")
    with open("/dev/full", "w") as full:
        command = [BIN / "text-generation-benchmark", "-t", MODEL, "-m", shard, "-b", "1", "-r", "1"]
        assert subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=120).returncode == 1


def test_help():
    done = run("/none", "--help")
    assert done.returncode == 0 and done.stderr == ""
    for option in ("--tokenizer-name", "--revision", "--batch-size", "--sequence-length", "--decode-length", "--runs", "--warmups",
                   "--master-shard-uds-path", "--temperature", "--top-k", "--top-p", "--typical-p", "--repetition-penalty",
                   "--frequency-penalty", "--watermark", "--do-sample", "--top-n-tokens"):
        assert f"{option} " in done.stdout, option
    assert run("/none", "--version").stdout.startswith("text-generation-benchmark ")
