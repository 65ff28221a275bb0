"""Writes a checkpoint as the folder that servers and `transformers` load.

    python export.py --data data --checkpoint checkpoint --out ../../models/demo
"""

import argparse
import json
import pathlib

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

import tokenizer as tk


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", type=pathlib.Path, required=True)
    p.add_argument("--checkpoint", type=pathlib.Path, required=True)
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--dtype", choices=("bf16", "f32"), default="bf16", help="f32 is for comparison alone")
    a = p.parse_args()
    saved = torch.load(a.checkpoint / "checkpoint.pt")
    kind = torch.bfloat16 if a.dtype == "bf16" else torch.float32
    tensors = {f"model.{name}": value.to(kind).contiguous() for name, value in sorted(saved["model"].items())}
    a.out.mkdir(parents=True, exist_ok=True)
    save_file(tensors, str(a.out / "model.safetensors"), {"format": "pt"})
    (a.out / "model.safetensors").chmod(0o644)
    write = lambda name, value: (a.out / name).write_text(json.dumps(value, indent=2) + "\n")
    write("config.json", {**saved["config"], "torch_dtype": "bfloat16" if a.dtype == "bf16" else "float32"})
    write("generation_config.json", {"eos_token_id": [tk.END], "pad_token_id": tk.PAD, "do_sample": False})
    tk.save_tokenizer(Tokenizer.from_file(str(a.data / "tokenizer" / "tokenizer.json")), a.out)
    place = saved["place"]
    size = (a.out / "model.safetensors").stat().st_size
    print(f"{sum(t.numel() for t in tensors.values()):,} parameters, {size / 1e6:.1f} MB, after {place['total_tokens'] / 1e6:.1f} M tokens "
          f"and {place['total_seconds'] / 60:.0f} minutes, into {a.out}")


if __name__ == "__main__":
    main()
