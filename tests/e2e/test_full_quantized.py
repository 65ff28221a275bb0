"""What `coxswain quantize` writes, loaded by transformers and by llama.cpp: their perplexity is the one that it printed.
Activations are rounded here and not there, which is what differs."""

import json
import pathlib
import re
import subprocess

import pytest

from conftest import FULL_VENVS, HERE
from demo import MODEL
from launcher import BIN

pytestmark = pytest.mark.skipif(not FULL_VENVS, reason="only with scripts/check.sh --full")
SAMPLE_TOKENS = 256
FOLDERS = {
    "int8, compressed-tensors": "--method rtn --type int8 --format compressed-tensors --groupsize -1",
    "int4, compressed-tensors": "--method rtn --type int4 --format compressed-tensors --groupsize 32",
    "fp8": "--method rtn --type fp8 --format compressed-tensors",
    "gptq, compressed-tensors": "--act-order --format compressed-tensors --groupsize 64",
    "awq": "--method awq --format compressed-tensors --groupsize 64",
    "gptq": "--groupsize 64",
    "gptq, act-order": "--groupsize 64 --act-order",
    "gptq, int8": "--type int8 --groupsize 64 --format gptq",
}
FILES = {kind: f"--method rtn --format gguf --type {kind}" for kind in ("Q8_0", "Q4_0", "Q4_K_M", "F16", "BF16")}


@pytest.fixture(scope="module", name="story")
def write_story(reference_models, tmp_path_factory):
    return written(tmp_path_factory, json.loads((reference_models / "stories60.json").read_text())[:14])


@pytest.fixture(scope="module", name="answers")
def write_answers(tmp_path_factory):
    return written(tmp_path_factory, [entry["text"] for entry in json.loads((MODEL / "golden.json").read_text())["entries"]])


def written(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n\n".join(texts), encoding="utf-8")
    return path


def quantised(model, options, text, out):
    """Where it lies, and the perplexity before and after."""
    done = subprocess.run([BIN / "coxswain", "quantize", model, out, "--evaluation", text, "--calibration-tokens", str(SAMPLE_TOKENS),
                           *options.split()], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    before, after = (float(re.search(rf"perplexity {word}: ([0-9.]+)", done.stdout)[1]) for word in ("before", "after"))
    return next(iter(out.glob("*.gguf")), out), before, after


def loaded(paths, text):
    """{path: what the other program makes of it}."""
    python = pathlib.Path(FULL_VENVS) / "venv-quantized/bin/python"
    done = subprocess.run([python, "-B", HERE / "clients/quantized_models.py", str(SAMPLE_TOKENS), text, *paths],
                          capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check(model, wanted, text, folder):
    made = {name: quantised(model, options, text, folder / str(i)) for i, (name, options) in enumerate(wanted.items())}
    found = loaded([model, *(path for path, _, _ in made.values())], text)
    plain = found[str(model)]["perplexity"]
    for name, (path, before, after) in made.items():
        other = found[str(path)]
        print(f"{name}: {before:.3f} before, {plain:.3f} there; {after:.3f} after, {other['perplexity']:.3f} there")
        assert other["n_tokens"] == found[str(model)]["n_tokens"] > 500, name
        assert before == pytest.approx(plain, rel=0.002), name
        assert after == pytest.approx(other["perplexity"], rel=0.01), name


def test_folders_are_loaded_by_transformers(reference_models, story, tmp_path):
    check(reference_models / "TinyStories-656K", FOLDERS, story, tmp_path)


def test_files_are_loaded_by_llama_cpp(reference_models, story, tmp_path):
    check(reference_models / "stories260K", FILES, story, tmp_path)


def test_k_quants_are_loaded_by_llama_cpp(answers, tmp_path):
    """Of a model that has rows of 512, as these blocks need."""
    check(MODEL, FILES, answers, tmp_path)
