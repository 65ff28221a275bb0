"""Clients that scripts/check.sh --full alone runs, unchanged, against the real launcher: what they get is what plain HTTP says."""

import json
import math
import os
import pathlib
import subprocess

import pytest

from conftest import FULL_VENVS, HERE
from demo import MESSAGES, MODEL, PROMPT

TASKS = HERE / "lm_eval_tasks"
CALL = {"name": "get_weather", "args": {"city": "Oslo"}}


@pytest.fixture(scope="module")
def plain(server):
    return server.post("/generate", {"inputs": PROMPT, "parameters": {"max_new_tokens": 12, "details": True}}).json()


@pytest.fixture(scope="module")
def chat(server):
    return server.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 20, "temperature": 0}).json()


@pytest.fixture(scope="module", name="from_langchain")
def run_langchain_huggingface(run_full_client):
    return run_full_client("langchain-huggingface")


class TestLangChainHuggingface:
    def test_generate(self, from_langchain, plain):
        text = plain["generated_text"]
        assert from_langchain["generate"] == text and from_langchain["generate_from_async"] == [text, text]
        assert from_langchain["generate_stream"] == [token["text"] for token in plain["details"]["tokens"]]

    def test_stop(self, from_langchain, plain):
        assert from_langchain["generate_stop"] == plain["generated_text"].split(".")[0]  # the package itself cuts the stop off

    def test_sampled(self, from_langchain, server):
        fields = {"max_new_tokens": 12, "top_k": 10, "top_p": 0.95, "typical_p": 0.95, "temperature": 0.8, "seed": 7}
        text = server.post("/generate", {"inputs": PROMPT, "parameters": fields}).json()["generated_text"]
        assert from_langchain["generate_by_defaults"] == [text, text]

    def test_chat(self, from_langchain, server):
        chat = server.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 20, "temperature": 0.3, "seed": 7}).json()
        choice = chat["choices"][0]
        assert from_langchain["chat_whole"] == {"content": choice["message"]["content"], "finish_reason": choice["finish_reason"],
                                                "n": chat["usage"]["total_tokens"]}
        assert from_langchain["chat_stream"] == choice["message"]["content"]

    def test_tools(self, from_langchain):
        loop = from_langchain["tool_loop"]
        assert {k: loop[k] for k in CALL} == CALL and "Oslo" in loop["then"]


@pytest.fixture(scope="module", name="from_llama_index")
def run_llama_index(run_full_client):
    return run_full_client("llama-index")


class TestLlamaIndex:
    def test_complete(self, from_llama_index, plain):
        assert from_llama_index["complete"] == from_llama_index["complete_stream"] == plain["generated_text"]

    def test_chat(self, from_llama_index, chat):
        text = chat["choices"][0]["message"]["content"]
        assert from_llama_index["chat"] == {"content": text, "n": chat["usage"]["total_tokens"]}
        assert from_llama_index["chat_stream"] == text and from_llama_index["from_async"] == [text, text]

    def test_tools(self, from_llama_index):
        loop = from_llama_index["tool_loop"]
        assert {k: loop[k] for k in CALL} == CALL and "Oslo" in loop["then"] and json.loads(loop["output"])["temperature"] == 4

    def test_structured(self, from_llama_index):
        assert from_llama_index["structured"] is True


@pytest.fixture(scope="module", name="from_lm_eval")
def run_lm_eval(server, tmp_path_factory):
    """Its command line over the tasks in lm_eval_tasks: {task: its accuracy and what each question got}."""
    if not FULL_VENVS:
        pytest.skip("only with scripts/check.sh --full")
    folder = tmp_path_factory.mktemp("lm-eval")
    served = f"model=tgi,base_url={server.url}/v1/completions,tokenizer={MODEL},max_length=2000,num_concurrent=2"
    done = subprocess.run(
        [pathlib.Path(FULL_VENVS) / "venv-lm-eval/bin/lm_eval", "--model", "local-completions", "--model_args", served, "--batch_size", "2",
         "--include_path", TASKS, "--tasks", "coxswain_choose,coxswain_tell", "--log_samples", "--output_path", folder / "out"],
        cwd=TASKS, env={"PATH": os.environ["PATH"], "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1"},
        capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    [results] = (folder / "out").rglob("results_*.json")
    found = {}
    for task, metrics in json.loads(results.read_text())["results"].items():
        [samples] = (folder / "out").rglob(f"samples_{task}_*.jsonl")
        found[task] = metrics, sorted(map(json.loads, samples.read_text().splitlines()), key=lambda sample: sample["doc_id"])
    return found


class TestLmEval:
    def test_likelihoods(self, from_lm_eval, server):
        metrics, samples = from_lm_eval["coxswain_choose"]
        n_right = 0
        for sample in samples:
            question = sample["doc"]["question"]
            n_question = len(server.post("/tokenize", {"inputs": question}).json())
            sums = []
            for choice, [[likelihood, is_greedy]] in zip(sample["doc"]["choices"], sample["resps"], strict=True):
                asked = {"inputs": question + choice, "parameters": {"max_new_tokens": 1, "decoder_input_details": True, "details": True}}
                prefill = server.post("/generate", asked).json()["details"]["prefill"]
                sums.append(sum(token["logprob"] for token in prefill[n_question:]))
                assert math.isclose(float(likelihood), sums[-1], rel_tol=1e-6), (question, choice)
                next_text = server.post("/generate", {"inputs": question, "parameters": {"max_new_tokens": 1}}).json()["generated_text"]
                assert (str(is_greedy) == "True") == (next_text == choice), (question, choice)
            n_right += sums.index(max(sums)) == sample["doc"]["answer"]
        assert metrics["acc,none"] == n_right / len(samples)

    def test_generated(self, from_lm_eval, server):
        _, samples = from_lm_eval["coxswain_tell"]
        for sample in samples:
            asked = {"prompt": sample["doc"]["question"], "max_tokens": 24, "temperature": 0, "stop": ["."]}
            assert sample["resps"] == [[server.post("/v1/completions", asked).json()["choices"][0]["text"]]]
