"""The demo model through the whole: what `transformers` answers with the same files, in models/demo/golden.json."""

import json

import pytest

from demo import MODEL
from launcher import Launcher

GOLDEN = json.loads((MODEL / "golden.json").read_text())
# Arithmetic of the server, and the distance of the best two logits below which it may take the other one.
TYPES = {"float32": 1e-3, "bfloat16": 0.5}
ODD_MESSAGES = ["", " ", "\n\n\n", "Wie spät ist es?", "今日は何曜日ですか。", "🙂" * 200, "\u0000\u0007", "<|user|><|end|>", "word " * 900]


@pytest.fixture(scope="module", params=TYPES)
def demo(request):
    """(launcher, smallest gap that settles a token)"""
    launcher = Launcher(["--dtype", request.param], model="demo").start()
    try:
        yield launcher.wait_ready(), TYPES[request.param]
        assert launcher.stop() == 0, launcher.log()
    finally:
        launcher.dispose()


def chat(launcher, messages, **more):
    return launcher.post("/v1/chat/completions", {
        "model": "demo", "messages": messages, "temperature": 0, "max_tokens": GOLDEN["limit"], **more})


def test_greedy_ids(demo):
    launcher, gap = demo
    compared = 0
    for entry in GOLDEN["entries"]:
        n = next((i for i, g in enumerate(entry["gaps"]) if g < gap), len(entry["ids"]))
        response = launcher.post("/generate", {
            "inputs": entry["prompt"], "parameters": {"details": True, "max_new_tokens": GOLDEN["limit"], "decoder_input_details": True}})
        assert response.status_code == 200, response.text
        details = response.json()["details"]
        assert [token["id"] for token in details["prefill"]] == entry["prompt_ids"]
        assert [token["id"] for token in details["tokens"]][:n] == entry["ids"][:n], entry["prompt"]
        compared += n
    assert compared >= 0.6 * sum(len(entry["ids"]) for entry in GOLDEN["entries"])


def test_chat_texts(demo):
    launcher, gap = demo
    settled = [entry for entry in GOLDEN["entries"] if "tools" not in entry and entry["smallest_gap"] >= gap]
    assert len(settled) >= 10
    for entry in settled:
        response = chat(launcher, entry["messages"])
        assert response.status_code == 200, response.text
        answer = response.json()
        assert answer["choices"][0]["message"]["content"] == entry["text"], entry["prompt"]
        assert answer["usage"]["prompt_tokens"] == len(entry["prompt_ids"])
        assert answer["usage"]["completion_tokens"] == len(entry["ids"])


def test_an_answer_that_was_begun_is_continued(demo):
    """What the client wrote of an answer is continued as the same prompt as plain text is."""
    launcher, _ = demo
    entry = next(entry for entry in GOLDEN["entries"] if "tools" not in entry and len(entry["text"].split()) > 8)
    begun = " ".join(entry["text"].split()[:4])
    messages = entry["messages"] + [{"role": "assistant", "content": begun}]
    plain = launcher.post("/generate", {"inputs": entry["prompt"] + begun, "parameters": {"max_new_tokens": GOLDEN["limit"]}})
    assert plain.status_code == 200, plain.text
    for more in ({}, {"continue_final_message": True}, {"continue_final_message": True, "add_generation_prompt": False}):
        response = chat(launcher, messages, **more)
        assert response.status_code == 200, response.text
        assert response.json()["choices"][0]["message"]["content"] == plain.json()["generated_text"], more
    assert chat(launcher, messages, continue_final_message=True, add_generation_prompt=True).status_code == 400


@pytest.mark.parametrize("text", ODD_MESSAGES)
def test_odd_messages_end_in_an_answer(demo, text):
    launcher, _ = demo
    response = chat(launcher, [{"role": "user", "content": text}])
    assert response.status_code == 200, response.text
    choice = response.json()["choices"][0]
    assert choice["message"]["content"] and choice["finish_reason"] in ("stop", "length")


def test_more_words_than_the_context_is_the_normal_error(demo):
    launcher, _ = demo
    response = chat(launcher, [{"role": "user", "content": "word " * 10000}])
    assert response.status_code == 400 and "maximum context length" in response.json()["error"]["message"]
    assert chat(launcher, [{"role": "user", "content": "Hello!"}]).status_code == 200
