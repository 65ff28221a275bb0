#!/usr/bin/env python3
"""Quantises a GGUF file with `text-generation-server quantize --format gguf` and decodes what comes out.

decode_gguf.py SERVER MODEL_DIR

The file of floats is made here, of a qwen3 model's folder; what the program makes of the folder itself has to say the same. Format: ggml's docs/gguf.md; blocks: ggml-common.h and the
functions dequantize_row_* of ggml-quants.c. Nothing of our code is used, nor anything but the standard library.
"""

import json
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

from decode import Values, read_folder

BLOCKS_LOOKED_AT = 40  # of a matrix
TEXT, ARRAY, U32, F32, I32, BOOL = 8, 9, 4, 6, 5, 7
NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    layer = re.match(r"model\.layers\.(\d+)\.(.*)\.weight", name)
    return f"blk.{layer[1]}.{NAMES[layer[2]]}.weight" if layer else f"{NAMES[name.removesuffix('.weight')]}.weight"


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def key(name, kind, value):
    if kind == TEXT:
        return text(name) + struct.pack("<I", TEXT) + text(value)
    if isinstance(value, list):
        items = [text(v) if kind == ARRAY else struct.pack("<i", v) for v in value]
        return text(name) + struct.pack("<IIQ", ARRAY, TEXT if kind == ARRAY else kind, len(items)) + b"".join(items)
    return text(name) + struct.pack("<I", kind) + struct.pack("<f" if kind == F32 else "<I", value)


def write_floats(model, path):
    """The folder as a converter would write it."""
    config = json.loads((model / "config.json").read_text())
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    tokens = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    added = {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    tokens = [added.get(i, token) for i, token in enumerate(tokens)]
    tokens += [added[i] for i in range(len(tokens), config["vocab_size"])]
    keys = [
        key("general.architecture", TEXT, "qwen3"), key("general.file_type", U32, 0),
        key("qwen3.block_count", U32, config["num_hidden_layers"]),
        key("qwen3.context_length", U32, config["max_position_embeddings"]),
        key("qwen3.embedding_length", U32, config["hidden_size"]),
        key("qwen3.feed_forward_length", U32, config["intermediate_size"]),
        key("qwen3.attention.head_count", U32, config["num_attention_heads"]),
        key("qwen3.attention.head_count_kv", U32, config["num_key_value_heads"]),
        key("qwen3.attention.key_length", U32, config["head_dim"]),
        key("qwen3.attention.value_length", U32, config["head_dim"]),
        key("qwen3.attention.layer_norm_rms_epsilon", F32, config["rms_norm_eps"]),
        key("qwen3.rope.freq_base", F32, config["rope_theta"]),
        key("tokenizer.ggml.model", TEXT, "gpt2"), key("tokenizer.ggml.pre", TEXT, "qwen2"),
        key("tokenizer.ggml.tokens", ARRAY, tokens),
        key("tokenizer.ggml.token_type", I32, [3 if i in added else 1 for i in range(len(tokens))]),
        key("tokenizer.ggml.merges", ARRAY, [" ".join(pair) for pair in tokenizer["model"]["merges"]]),
        key("tokenizer.ggml.eos_token_id", U32, config["eos_token_id"]),
    ]
    infos, data = b"", b""
    for name, (kind, shape, stored) in read_folder(model).items():
        assert kind == "BF16"
        infos += text(gguf_name(name)) + struct.pack("<I", len(shape))
        infos += b"".join(struct.pack("<Q", extent) for extent in reversed(shape))
        infos += struct.pack("<IQ", 0, len(data))
        # The bits of a bfloat16 are the upper half of a float's.
        data += b"".join(b"\0\0" + stored[i:i + 2] for i in range(0, len(stored), 2))
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(read_folder(model)), len(keys)) + b"".join(keys) + infos
    path.write_bytes(head + bytes(-len(head) % 32) + data)


class Gguf:
    def __init__(self, path):
        self.data, self.at, self.keys, self.tensors = path.read_bytes(), 4, {}, {}
        assert self.data[:4] == b"GGUF" and self.take("<I") == 3
        n_tensors, n_keys = self.take("<Q"), self.take("<Q")
        for _ in range(n_keys):
            name = self.text()
            self.keys[name] = self.value(self.take("<I"))
        for _ in range(n_tensors):
            name = self.text()
            shape = [self.take("<Q") for _ in range(self.take("<I"))][::-1]
            self.tensors[name] = (self.take("<I"), shape, self.take("<Q"))
        self.begin = self.at + -self.at % 32

    def take(self, form):
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self):
        length = self.take("<Q")
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def value(self, kind):
        if kind == TEXT:
            return self.text()
        if kind == ARRAY:
            inner = self.take("<I")
            return [self.value(inner) for _ in range(self.take("<Q"))]
        return self.take({U32: "<I", F32: "<f", I32: "<i", BOOL: "<?"}[kind])

    def block(self, name, index):
        kind, _, offset = self.tensors[name]
        _, size, decode = TYPES[kind]
        at = self.begin + offset + index * size
        return decode(self.data[at:at + size])


def half(block, at):
    return struct.unpack_from("<e", block, at)[0]


def nibbles(codes):
    return [c & 15 for c in codes] + [c >> 4 for c in codes]


def q4_0(b):
    return [(q - 8) * half(b, 0) for q in nibbles(b[2:18])]


def q5_0(b):
    (high,) = struct.unpack_from("<I", b, 2)
    return [((q | (high >> i & 1) << 4) - 16) * half(b, 0) for i, q in enumerate(nibbles(b[6:22]))]


def q8_0(b):
    return [q * half(b, 0) for q in struct.unpack_from("32b", b, 2)]


def q4_k(b):
    d, m, packed = half(b, 0), half(b, 2), b[4:16]
    scales = [packed[j] & 63 for j in range(4)] + [packed[8 + j] & 15 | packed[j] >> 6 << 4 for j in range(4)]
    minimums = [packed[4 + j] & 63 for j in range(4)] + [packed[8 + j] >> 4 | packed[4 + j] >> 6 << 4 for j in range(4)]
    out = []
    for pair in range(4):
        codes = b[16 + 32 * pair:48 + 32 * pair]
        out += [d * scales[2 * pair] * (c & 15) - m * minimums[2 * pair] for c in codes]
        out += [d * scales[2 * pair + 1] * (c >> 4) - m * minimums[2 * pair + 1] for c in codes]
    return out


def q6_k(b):
    out = []
    for part in range(2):
        low, high = b[64 * part:64 * part + 64], b[128 + 32 * part:160 + 32 * part]
        scales = struct.unpack_from("8b", b, 192 + 8 * part)
        for quarter in range(4):
            for i in range(32):
                q = low[i + 32 * (quarter % 2)] >> 4 * (quarter // 2) & 15 | (high[i] >> 2 * quarter & 3) << 4
                out.append(half(b, 208) * scales[2 * quarter + i // 16] * (q - 32))
    return out


def plain(b):
    return list(struct.unpack("<f", b))


def bfloat(b):
    return list(struct.unpack("<f", b"\0\0" + b))


# By number: values and bytes of a block.
TYPES = {0: (1, 4, plain), 30: (1, 2, bfloat), 2: (32, 18, q4_0), 6: (32, 22, q5_0), 8: (32, 34, q8_0), 12: (256, 144, q4_k), 14: (256, 210, q6_k)}
ERRORS = {0: 0.0, 30: 0.0, 2: 0.12, 6: 0.06, 8: 0.01, 12: 0.11, 14: 0.03}  # root mean squares, relative


def check(source, out, wanted):
    before, after = out["floats"], out["quantised"]
    changed = {"general.file_type", "general.quantization_version"}
    kept = {k: v for k, v in before.keys.items() if k not in changed}
    assert kept == {k: v for k, v in after.keys.items() if k in kept}, after.keys.keys()
    assert set(before.tensors) == set(after.tensors)
    assert all((kind == 0) == ("norm" in name) for name, (kind, _, _) in after.tensors.items())
    draw = random.Random(5)
    kinds = {}
    for name, (kind, shape, stored) in source.items():
        there, there_shape, _ = after.tensors[gguf_name(name)]
        assert there_shape == shape
        values, (block_values, _, _) = Values((kind, shape, stored)), TYPES[there]
        off = size = 0.0
        per_row = shape[-1] // block_values
        n_blocks = per_row * (shape[0] if len(shape) == 2 else 1)
        for _ in range(BLOCKS_LOOKED_AT):
            index = draw.randrange(n_blocks)
            for i, value in enumerate(after.block(gguf_name(name), index)):
                k = index % per_row * block_values + i
                plain_value = values[(index // per_row, k) if len(shape) == 2 else (k,)]
                off, size = off + (value - plain_value)**2, size + plain_value**2
        assert off <= size * ERRORS[there]**2, (name, there, (off / size)**0.5)
        kinds.setdefault(re.sub(r"blk.\d+.", "", gguf_name(name)), set()).add(there)
    assert all(kinds[name] == kind for name, kind in wanted.items()), kinds


def main(server, model):
    source = read_folder(model)
    # Rows of 192 are no whole blocks of 256; the last quarter or so of ffn_down and attn_v has more bits.
    runs = {
        "Q8_0": {"attn_q.weight": {8}, "token_embd.weight": {8}, "ffn_down.weight": {8}},
        "Q4_0": {"attn_q.weight": {2}, "token_embd.weight": {8}, "ffn_down.weight": {2}},
        "Q4_K_M": {"attn_q.weight": {6}, "token_embd.weight": {8}, "attn_v.weight": {6, 8}, "ffn_down.weight": {12, 14}},
    }
    with tempfile.TemporaryDirectory() as place:
        evaluation = pathlib.Path(place) / "text"
        evaluation.write_text("".join(
            f"<|user|>What is {n} plus {2 * n}?<|end|><|assistant|>{n} + {2 * n} = {3 * n}<|end|>" for n in range(11, 41)))
        floats = pathlib.Path(place) / "demo-f32.gguf"
        write_floats(pathlib.Path(model), floats)
        for mix, wanted in runs.items():
            words = [server, "quantize", floats, place, "--format", "gguf", "--type", mix, "--evaluation", evaluation]
            done = subprocess.run(words, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            before, after = (float(p) for p in re.findall(r"perplexity \w+: ([0-9.]+)", done.stdout))
            assert abs(after / before - 1) < (0.01 if mix == "Q8_0" else 0.3), done.stdout
            quantised = Gguf(pathlib.Path(place) / f"demo-{mix}.gguf")
            check(source, {"floats": Gguf(floats), "quantised": quantised}, wanted)
            print(f"{mix}: perplexity {before} before, {after} after, {len(quantised.tensors)} tensors")
        words = [server, "quantize", model, place, "--format", "gguf", "--type", "BF16", "--evaluation", evaluation]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0 and "(+0.00 %)" in done.stdout, done.stdout + done.stderr
        of_folder = Gguf(pathlib.Path(place) / f"{pathlib.Path(model).name}-BF16.gguf")
        check(source, {"floats": Gguf(floats), "quantised": of_folder}, {"attn_q.weight": {30}, "attn_norm.weight": {0}})
        assert of_folder.keys["tokenizer.huggingface.json"] == (pathlib.Path(model) / "tokenizer.json").read_text()
        print(f"of the folder: {len(of_folder.tensors)} tensors of the same values")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
