#!/usr/bin/env python3
"""Quantises a model with `text-generation-server quantize` and decodes what comes out, with nothing of our code.

decode.py SERVER MODEL_DIR

The layouts are written down here once more: safetensors (README of the project), GPTQ's files (AutoGPTQ), packed and
float8 weights of compressed-tensors. Rounding to the nearest leaves every weight within half a step of its value, or at the
end of the range: a code, scale or zero point that stands elsewhere breaks that. What GPTQ rounds may be off further; its
weights have to be near all together. Only the standard library is used.
"""

import json
import math
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

WEIGHTS_LOOKED_AT = 2000  # of a matrix
FORMATS = {"F32": "f", "F16": "e", "I32": "i", "I64": "q", "F8_E4M3": "B"}


def read_folder(folder):
    """{name: (type, shape, bytes)} of all safetensors of a folder."""
    out = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        data = path.read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        for name, entry in json.loads(data[8:8 + length]).items():
            if name == "__metadata__":
                continue
            assert name not in out, f"{name} is there twice"
            begin, end = entry["data_offsets"]
            out[name] = (entry["dtype"], entry["shape"], data[8 + length + begin:8 + length + end])
    return out


class Values:
    """The numbers of a tensor, by place."""

    def __init__(self, tensor):
        self.type, self.shape, self.data = tensor

    def __getitem__(self, place):
        at = 0
        for index, extent in zip(place, self.shape):
            assert 0 <= index < extent
            at = at * extent + index
        if self.type == "BF16":
            (bits,) = struct.unpack_from("<H", self.data, at * 2)
            return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
        form = "<" + FORMATS[self.type]
        return struct.unpack_from(form, self.data, at * struct.calcsize(form))[0]


def float8(code):
    exponent, fraction = code >> 3 & 15, code & 7
    assert (exponent, fraction) != (15, 7), "not a number"
    magnitude = fraction * 2.0**-9 if exponent == 0 else (8 + fraction) * 2.0**(exponent - 10)
    return -magnitude if code & 128 else magnitude


def bits_at(word, first, bits):
    return (word & 0xFFFFFFFF) >> first & ((1 << bits) - 1)


class Gptq:
    def __init__(self, tensors, module, config):
        self.bits = config["bits"]
        self.words, self.zeros, self.scales, self.groups = (
            Values(tensors[f"{module}.{part}"]) for part in ("qweight", "qzeros", "scales", "g_idx"))
        size, inputs = config["group_size"], self.groups.shape[0]
        assert self.scales.shape[0] == (1 if size == -1 else math.ceil(inputs / size))
        if not config["desc_act"]:
            assert [self.groups[[i]] for i in range(inputs)] == [0 if size == -1 else i // size for i in range(inputs)]

    def weight(self, n, k):
        """Value, step, whether the code is the first or the last."""
        per_word = 32 // self.bits
        code = bits_at(self.words[k // per_word, n], k % per_word * self.bits, self.bits)
        group = self.groups[[k]]
        zero = bits_at(self.zeros[group, n // per_word], n % per_word * self.bits, self.bits) + 1
        scale = self.scales[group, n]
        return (code - zero) * scale, scale, code in (0, 2**self.bits - 1)


class Packed:
    def __init__(self, tensors, module, config):
        scheme = config["config_groups"]["group_0"]["weights"]
        self.bits, self.size = scheme["num_bits"], scheme["group_size"]
        self.words, self.scales, extents = (
            Values(tensors[f"{module}.{part}"]) for part in ("weight_packed", "weight_scale", "weight_shape"))
        assert extents[[0]] == self.scales.shape[0] and scheme["symmetric"]

    def weight(self, n, k):
        per_word = 32 // self.bits
        code = bits_at(self.words[n, k // per_word], k % per_word * self.bits, self.bits)
        group = k // self.size if self.size else 0
        scale = self.scales[n, group]
        return (code - 2**(self.bits - 1)) * scale, scale, code in (0, 2**self.bits - 1)


class Float8:
    def __init__(self, tensors, module, config):
        self.codes, self.scales = Values(tensors[f"{module}.weight"]), Values(tensors[f"{module}.weight_scale"])
        assert self.codes.type == "F8_E4M3" and config["format"] == "float-quantized"

    def weight(self, n, k):
        code, scale = self.codes[n, k], self.scales[n, 0]
        step = 2.0**(max(code >> 3 & 15, 1) - 10) * scale
        return float8(code) * scale, step, False


KINDS = {".qweight": Gptq, ".weight_packed": Packed, ".weight_scale": Float8}


# AWQ folds its factors into the norm ahead. Those between the up- and the down-projection stand in no plain tensor.
NORMS = {"q_proj": "input_layernorm", "k_proj": "input_layernorm", "v_proj": "input_layernorm",
         "gate_proj": "post_attention_layernorm"}
UNSEEN = ("up_proj", "down_proj")


def factors_of(source, tensors, module):
    """What the inputs of a module's weights were multiplied by."""
    part = module.split(".")[-1]
    if part not in NORMS:
        return None
    norm = ".".join(module.split(".")[:3] + [NORMS[part], "weight"])
    before, after = Values(source[norm]), Values(tensors[norm])
    return [before[[k]] / after[[k]] if after[[k]] else 1.0 for k in range(before.shape[0])]


def check(source, folder, rounds, folds):
    config = json.loads((folder / "config.json").read_text())["quantization_config"]
    if config["quant_method"] == "gptq":
        assert json.loads((folder / "quantize_config.json").read_text()) == config
    tensors = read_folder(folder)
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    assert set(index) == set(tensors)
    draw = random.Random(7)
    modules = {}
    for name in tensors:
        for ending, kind in KINDS.items():
            if name.endswith(ending) and not (kind is Float8 and name.replace("_scale", "_packed") in tensors):
                modules[name[:-len(ending)]] = kind
    quantised = {f"{module}.weight" for module in modules}
    assert len(modules) >= 7, modules
    assert all(("proj" in name) == (name in quantised) for name in source if "layers" in name and "norm" not in name)
    for name, tensor in source.items():
        folded = folds and name.endswith(tuple(f"{norm}.weight" for norm in NORMS.values()))
        assert name in quantised or folded or tensors[name] == tensor, f"{name} should be as it was"
    assert folds == any(tensors.get(name) != tensor for name, tensor in source.items() if "layernorm" in name)
    for module, kind in sorted(modules.items()):
        if folds and module.endswith(UNSEEN):
            continue
        factors = factors_of(source, tensors, module)
        plain, decoded = Values(source[f"{module}.weight"]), kind(tensors, module, config)
        outputs, inputs = plain.shape
        off = size = 0.0
        for _ in range(WEIGHTS_LOOKED_AT):
            n, k = draw.randrange(outputs), draw.randrange(inputs)
            wanted, (found, step, at_end) = plain[n, k] * (factors[k] if factors else 1), decoded.weight(n, k)
            off, size = off + (wanted - found)**2, size + wanted**2
            beyond = at_end and abs(wanted) > abs(found)
            assert not rounds or beyond or abs(wanted - found) <= step * 0.5001, (module, n, k, wanted, found, step)
        limit = 0.2 if rounds else 0.5  # codes that are mixed up are off by 1.4
        assert off <= size * limit**2, (module, math.sqrt(off / size))
    return len(modules)


def main(server, model):
    source = read_folder(model)
    runs = [
        (True, "--method rtn --type int8 --format compressed-tensors --groupsize -1"),
        (True, "--method rtn --type int4 --format compressed-tensors --groupsize 32"),
        (True, "--method rtn --type fp8 --format compressed-tensors"),
        (True, "--method rtn --type int4 --format gptq"),
        (True, "--method rtn --type int8 --format gptq --groupsize 64"),
        (True, "--method awq --groupsize 64 --calibration-samples 2 --calibration-tokens 256"),
        (False, "--act-order --groupsize 64 --calibration-samples 2 --calibration-tokens 256"),
        (False, "--act-order --format compressed-tensors --groupsize 64 --calibration-samples 2 --calibration-tokens 256"),
    ]
    with tempfile.TemporaryDirectory() as place:
        for number, (rounds, words) in enumerate(runs):
            folder = pathlib.Path(place) / str(number)
            done = subprocess.run([server, "quantize", model, folder, *words.split()], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "perplexity before: " in done.stdout and "perplexity after: " in done.stdout, done.stdout
            print(f"{words}: {check(source, folder, rounds, 'awq' in words)} matrices")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
