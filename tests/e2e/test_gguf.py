"""GGUF files as they come: a file, a folder, one type of a folder; tokenizer and chat template from the file."""

import shutil

import pytest

from launcher import failed_start

PROMPT = {"inputs": "hello", "parameters": {"max_new_tokens": 8, "details": True}}


@pytest.fixture(scope="module")
def files(reference_models):
    return reference_models.parent / "goldens" / "quant" / "gguf"


def test_a_file_is_all_there_is_to_say(launch, files, tmp_path):
    shutil.copy(files / "llama-q4_k.gguf", tmp_path / "some-Q4_K.gguf")
    shutil.copy(files / "llama-q8_0.gguf", tmp_path / "some-Q8_0.gguf")
    answers = []
    for model in (tmp_path / "some-Q8_0.gguf", f"{tmp_path}:q8_0"):
        launcher = launch(model=model).wait_ready()
        assert launcher.get("/info").json()["model_id"] == str(model)
        answers.append(launcher.post("/generate", PROMPT).json())
        chat = launcher.post("/v1/chat/completions", {
            "model": "tgi", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4})
        assert chat.status_code == 200 and chat.json()["usage"]["completion_tokens"] > 0, chat.text
        assert launcher.stop() == 0, launcher.log()
    assert answers[0] == answers[1]
    assert answers[0]["details"]["generated_tokens"] == 8


def test_which_one_is_asked_for(launch, files):
    code, variant, cause, cure = failed_start(launch(model=f"{files}:q8_0"))
    assert (code, variant) == (3, "DownloadError")
    assert cause == f"{files} has not one GGUF file of type q8_0"
    assert "llama-q8_0.gguf" in cure and "qwen2-q8_0.gguf" in cure


def test_a_damaged_file_is_refused_by_name(launch, files, tmp_path):
    whole = (files / "llama-q8_0.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[:-100])
    _, _, cause, _ = failed_start(launch(model=tmp_path / "cut.gguf"))
    assert "ends behind the end of the file" in cause
