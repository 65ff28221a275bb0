"""Folders of models that are damaged, incomplete or not what their config says: each refused in one line, with a cure."""

import json
import re
import shutil
import struct

import pytest

from demo import MODEL, VOCABULARY
from launcher import failed_start


@pytest.fixture
def model_copy(tmp_path):
    """A copy of the demo model that a test may damage."""
    folder = tmp_path / "model"
    shutil.copytree(MODEL, folder)
    return folder


def edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


class TestModelFiles:
    def fails(self, launch, folder):
        code, variant, cause, cure = failed_start(launch(model=folder))
        assert code == 3, cause
        return variant, cause, cure

    def fails_with(self, launch, folder, cause):
        expected = ("ShardCannotStart", cause.replace("{model}", str(folder)),
                    "Check the folder of the model: it must be complete, and of a family that is served.")
        assert self.fails(launch, folder) == expected

    def test_unknown_path(self, launch, tmp_path):
        variant, cause, _ = self.fails(launch, tmp_path / "nothing")
        assert (variant, cause) == ("DownloadError", f"no folder named {tmp_path}/nothing")

    def test_no_config(self, launch, model_copy):
        (model_copy / "config.json").unlink()
        assert self.fails(launch, model_copy)[:2] == ("DownloadError", f"{model_copy} has no config.json")

    def test_no_weights(self, launch, model_copy):
        (model_copy / "model.safetensors").unlink()
        assert self.fails(launch, model_copy)[:2] == ("DownloadError", f"{model_copy} has no *.safetensors file")

    def test_no_tokenizer(self, launch, model_copy):
        (model_copy / "tokenizer.json").unlink()
        self.fails_with(launch, model_copy, "{model}: no tokenizer (tokenizer.json, tokenizer.model, vocab.json with merges.txt, "
                        "vocab.txt, *.tiktoken, *.gguf)")

    def test_truncated_weights(self, launch, model_copy):
        path = model_copy / "model.safetensors"
        data = path.read_bytes()
        path.write_bytes(data[:-100])  # less than the last tensor
        n_header = struct.unpack("<Q", data[:8])[0]
        n_data = len(data) - 8 - n_header
        last = next(name for name, entry in json.loads(data[8:8 + n_header]).items() if entry.get("data_offsets", [])[1:] == [n_data])
        self.fails_with(launch, model_copy, f'{{model}}/model.safetensors: tensor "{last}": '
                        f"data_offsets end at {n_data}, the file has {n_data - 100} bytes of data")

    def test_header_longer_than_the_file(self, launch, model_copy):
        path = model_copy / "model.safetensors"
        path.write_bytes(struct.pack("<Q", 2**40) + path.read_bytes()[8:])
        self.fails_with(launch, model_copy, "{model}/model.safetensors: header length 1099511627776 is above the limit of 100000000")

    def test_empty_weights(self, launch, model_copy):
        (model_copy / "model.safetensors").write_bytes(b"")
        self.fails_with(launch, model_copy, "{model}/model.safetensors: shorter than the 8 bytes of the header length")

    def test_broken_config(self, launch, model_copy):
        (model_copy / "config.json").write_text("{")
        self.fails_with(launch, model_copy, "{model}/config.json: incomplete JSON at line 1 column 2")

    @pytest.mark.parametrize(("changes", "cause"), [
        ({"hidden_size": 160},
         '/model.safetensors: tensor "model.layers.0.self_attn.o_proj.weight" has shape [192, 192], the config asks for [160, 192]'),
        ({"vocab_size": 4096},
         '/model.safetensors: tensor "model.embed_tokens.weight" has shape [3072, 192], the config asks for [4096, 192]'),
        ({"num_hidden_layers": 7}, '/model.safetensors: tensor "layers.6.input_layernorm.weight" is missing'),
        ({"num_key_value_heads": 4}, ": config.json: num_key_value_heads is 4 and does not divide num_attention_heads 6"),
        ({"num_hidden_layers": 0}, ": config.json: num_hidden_layers must be a whole number from 1 to 1000, not 0"),
        ({"num_hidden_layers": "four"}, ': config.json: num_hidden_layers must be a whole number from 1 to 1000, not "four"'),
        ({"hidden_size": -192}, ": config.json: hidden_size must be a whole number from 1 to 65536, not -192"),
        ({"hidden_size": 1e30}, ": config.json: hidden_size must be a whole number from 1 to 65536, not 1e+30"),
        ({"model_type": "unheard-of"}, ': config.json: model_type "unheard-of" is not supported'),
    ], ids=lambda value: json.dumps(value) if isinstance(value, dict) else "")
    def test_config_that_does_not_fit(self, launch, model_copy, changes, cause):
        edit_config(model_copy, **changes)
        self.fails_with(launch, model_copy, "{model}" + cause)

    def test_null_in_the_config_is_absence(self, launch, model_copy):
        edit_config(model_copy, rms_norm_eps=None)  # it has a default
        launcher = launch(model=model_copy).wait_ready()
        assert launcher.stop() == 0

    def test_broken_tokenizer(self, launch, model_copy):
        (model_copy / "tokenizer.json").write_text('{"model": {"type": "BPE"')
        self.fails_with(launch, model_copy, "{model}/tokenizer.json: incomplete JSON at line 1 column 25")

    def test_broken_template(self, launch, model_copy):
        path = model_copy / "tokenizer_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": "{% for x in %}"}))
        assert self.fails(launch, model_copy)[:2] == ("WebserverFailed", "chat template `default`: line 1: expected an expression")

    def test_more_token_ids_than_rows(self, launch, model_copy):
        path = model_copy / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        for token in range(len(tokenizer["model"]["vocab"]), VOCABULARY + 1):
            tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "id": token, "content": f"<extra {token}>"})
        path.write_text(json.dumps(tokenizer))
        self.fails_with(launch, model_copy, f"{{model}}/config.json: vocab_size is {VOCABULARY}, but the tokenizer has ids up to {VOCABULARY}")

    def test_named_templates(self, launch, model_copy):
        path = model_copy / "tokenizer_config.json"
        config = json.loads(path.read_text())
        config["chat_template"] = [{"name": "tool_use", "template": "tools {{ messages[0].content }}"},
                                   {"name": "default", "template": "plain {{ messages[0].content }}"}]
        path.write_text(json.dumps(config))
        launcher = launch(model=model_copy).wait_ready()
        chat = {"messages": [{"role": "user", "content": "Hi"}]}
        assert launcher.post("/chat_tokenize", chat).json()["templated_text"] == "plain Hi"
        assert launcher.stop() == 0

        config["chat_template"] = config["chat_template"][:1]
        path.write_text(json.dumps(config))
        launcher = launch(model=model_copy).wait_ready()
        response = launcher.post("/v1/chat/completions", chat)
        assert response.status_code == 400 and response.json()["error_type"] == "template_error"
        assert response.json()["error"]["message"] == 'Template error: the model has no chat template named "default"; there are: tool_use'
        assert launcher.stop() == 0

    @pytest.mark.parametrize("suffix", ["json", "jinja"])
    def test_tokenizer_config_path(self, launch, model_copy, tmp_path, suffix):
        """A file of its own with the template; as JSON it replaces all of tokenizer_config.json."""
        template = "[{{ messages[0].content }}]{{ eos_token }}"
        path = tmp_path / f"own.{suffix}"
        path.write_text(template if suffix == "jinja" else json.dumps({"chat_template": template, "eos_token": "<|pad|>"}))
        launcher = launch("--tokenizer-config-path", path).wait_ready()
        text = launcher.post("/chat_tokenize", {"messages": [{"role": "user", "content": "Hi"}]}).json()["templated_text"]
        assert text == ("[Hi]<|pad|>" if suffix == "json" else "[Hi]<|end|>")
        assert launcher.stop() == 0

    def test_no_template(self, launch, model_copy):
        path = model_copy / "tokenizer_config.json"
        config = json.loads(path.read_text())
        del config["chat_template"]
        path.write_text(json.dumps(config))
        launcher = launch(model=model_copy).wait_ready()
        response = launcher.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]})
        assert response.status_code == 400 and response.json()["error_type"] == "template_error"
        assert re.search(r"^  try +curl \S+/generate ", launcher.out(), re.MULTILINE)
        assert launcher.stop() == 0
