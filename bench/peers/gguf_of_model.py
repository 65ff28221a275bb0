#!/usr/bin/env python3
"""gguf_of_model.py FOLDER OUT.gguf: a folder of llama's shape as a GGUF file of bfloat16, for llama.cpp to quantise.

For timing alone: rows of q and k are in the order that the file format wants, but the factors of a scaled rope are
left out, and the vocabulary is filled up with unused tokens.
"""
import json
import pathlib
import sys

import gguf
import numpy

NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def gguf_name(name):
    stem = name.removesuffix(".weight").removeprefix("model.")
    if stem.startswith("layers."):
        _, layer, part = stem.split(".", 2)
        return f"blk.{layer}.{NAMES[part]}.weight"
    return {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}[stem] + ".weight"


def tensors(path):
    with open(path, "rb") as file:
        n_header = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(n_header))
    data = numpy.memmap(path, numpy.uint8, "r", offset=8 + n_header)
    for name, tensor in header.items():
        if name != "__metadata__":
            begin, end = tensor["data_offsets"]
            yield name, data[begin:end].view(numpy.uint16).reshape(tensor["shape"])


def interleaved(rows, n_heads):
    return rows.reshape(n_heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def main(folder, out):
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer.json").read_text())["model"]
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    tokens = [token for token, _ in sorted(tokenizer["vocab"].items(), key=lambda item: item[1])]
    n_known = len(tokens)
    tokens += [f"[unused {i}]" for i in range(n_known, config["vocab_size"])]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * n_known + [gguf.TokenType.UNUSED] * (len(tokens) - n_known))
    writer.add_token_merges([" ".join(merge) if isinstance(merge, list) else merge for merge in tokenizer["merges"]])
    writer.add_bos_token_id(config["bos_token_id"])
    ends = config["eos_token_id"]
    writer.add_eos_token_id(ends[0] if isinstance(ends, list) else ends)
    heads = {"self_attn.q_proj.weight": config["num_attention_heads"], "self_attn.k_proj.weight": config["num_key_value_heads"]}
    for path in sorted(folder.glob("*.safetensors")):
        for name, values in tensors(path):
            for part, n_heads in heads.items():
                if name.endswith(part):
                    values = interleaved(values, n_heads)
            if values.ndim == 1:
                writer.add_tensor(gguf_name(name), (values.astype(numpy.uint32) << 16).view(numpy.float32))
            else:
                writer.add_tensor(gguf_name(name), numpy.ascontiguousarray(values).view(numpy.uint8),
                                  raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
