"""Trains the small story model that `scripts/serve.sh` serves when no model is named.

    python3 -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python train.py --out ../../models/story --steps 6000

Llama architecture, 1.8 M parameters, byte-level BPE with 1,024 entries, text from stories.py. Resumes from its checkpoint.
Nothing that serves or checks needs this script or torch: the result is committed.
"""

import argparse
import json
import math
import pathlib
import time

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

import stories

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 1024, "hidden_size": 192,
    "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 32,
    "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True,
    "attention_bias": False, "mlp_bias": False, "bos_token_id": None, "eos_token_id": 0, "pad_token_id": 1, "torch_dtype": "bfloat16",
}
SPECIAL = ["<|end|>", "<|pad|>", "<|system|>", "<|user|>", "<|assistant|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def make_tokenizer(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=CONFIG["vocab_size"], initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


class Block(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        hidden, heads, kv, dim = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        self.heads, self.kv, self.dim, self.eps = heads, kv, dim, c["rms_norm_eps"]
        linear = lambda k, n: torch.nn.Linear(k, n, bias=False)
        self.q_proj, self.k_proj, self.v_proj = linear(hidden, heads * dim), linear(hidden, kv * dim), linear(hidden, kv * dim)
        self.o_proj = linear(heads * dim, hidden)
        self.gate_proj, self.up_proj = linear(hidden, c["intermediate_size"]), linear(hidden, c["intermediate_size"])
        self.down_proj = linear(c["intermediate_size"], hidden)
        self.input_layernorm = torch.nn.Parameter(torch.ones(hidden))
        self.post_attention_layernorm = torch.nn.Parameter(torch.ones(hidden))

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        h = F.rms_norm(x, x.shape[-1:], self.input_layernorm, self.eps)
        q = self.q_proj(h).view(b, t, self.heads, self.dim).transpose(1, 2)
        k = self.k_proj(h).view(b, t, self.kv, self.dim).transpose(1, 2)
        v = self.v_proj(h).view(b, t, self.kv, self.dim).transpose(1, 2)
        turn = lambda z: z * cos + torch.cat((-z[..., self.dim // 2:], z[..., : self.dim // 2]), -1) * sin
        repeat = self.heads // self.kv
        out = F.scaled_dot_product_attention(
            turn(q), turn(k).repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1), is_causal=True)
        x = x + self.o_proj(out.transpose(1, 2).reshape(b, t, -1))
        h = F.rms_norm(x, x.shape[-1:], self.post_attention_layernorm, self.eps)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))


class Llama(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed = torch.nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = torch.nn.ModuleList(Block(c) for _ in range(c["num_hidden_layers"]))
        self.norm = torch.nn.Parameter(torch.ones(c["hidden_size"]))
        self.c = c
        for name, p in self.named_parameters():
            if p.dim() == 2:
                torch.nn.init.normal_(p, std=0.02 if "o_proj" not in name and "down" not in name else 0.02 / math.sqrt(8))

    def forward(self, ids):
        t = ids.shape[1]
        half = torch.arange(0, self.c["head_dim"], 2) / self.c["head_dim"]
        angle = torch.arange(t)[:, None] / self.c["rope_theta"] ** half[None, :]
        cos, sin = torch.cat((angle, angle), -1).cos(), torch.cat((angle, angle), -1).sin()
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return F.rms_norm(x, x.shape[-1:], self.norm, self.c["rms_norm_eps"]) @ self.embed.weight.T


def export(model, tokenizer, out):
    out.mkdir(parents=True, exist_ok=True)
    tensors = {"model.embed_tokens.weight": model.embed.weight, "model.norm.weight": model.norm}
    for i, layer in enumerate(model.layers):
        for name, p in layer.named_parameters():
            group = "self_attn." if name[0] in "qkvo" and "_proj" in name else "mlp." if "_proj" in name else ""
            tensors[f"model.layers.{i}.{group}{name if name.endswith('weight') else name + '.weight'}"] = p
    save_file({k: v.detach().to(torch.bfloat16).contiguous() for k, v in tensors.items()}, out / "model.safetensors", {"format": "pt"})
    write = lambda name, value: (out / name).write_text(json.dumps(value, indent=2) + "\n")
    write("config.json", CONFIG)
    write("generation_config.json", {"eos_token_id": [0], "pad_token_id": 1})
    write("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "pad_token": "<|pad|>",
                                    "add_bos_token": False, "model_max_length": 1024, "chat_template": CHAT_TEMPLATE})
    tokenizer.save(str(out / "tokenizer.json"))


def sample(model, tokenizer, prompt, n=120):
    ids = tokenizer.encode(prompt).ids
    for _ in range(n):
        next_id = int(model(torch.tensor([ids]))[0, -1].argmax())
        if next_id == 0:
            break
        ids.append(next_id)
    return tokenizer.decode(ids, skip_special_tokens=False)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--steps", type=int, default=6000)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--length", type=int, default=256)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--checkpoint", type=pathlib.Path, default=pathlib.Path("checkpoint.pt"))
    a = p.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(a.threads)
    texts = stories.documents(1, 60000)
    tokenizer = make_tokenizer(texts[:5000])
    stream = np.array([i for e in tokenizer.encode_batch(texts) for i in e.ids], dtype=np.int64)
    held_out = np.array([i for e in tokenizer.encode_batch(stories.documents(2, 200)) for i in e.ids], dtype=np.int64)
    model = Llama(CONFIG)
    decay = [q for q in model.parameters() if q.dim() == 2]
    rest = [q for q in model.parameters() if q.dim() != 2]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=2e-3, betas=(0.9, 0.95))
    step = 0
    if a.checkpoint.exists():
        saved = torch.load(a.checkpoint)
        model.load_state_dict(saved["model"]); optimizer.load_state_dict(saved["optimizer"]); step = saved["step"]
    print(f"{sum(q.numel() for q in model.parameters()):,} parameters, {len(stream):,} tokens", flush=True)
    begin = time.time()
    while step < a.steps:
        rng = np.random.default_rng(step)
        at = rng.integers(0, len(stream) - a.length - 1, a.batch)
        ids = torch.from_numpy(np.stack([stream[i: i + a.length + 1] for i in at]))
        rate = 2e-3 * min(1, (step + 1) / 100) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / a.steps)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 100 == 0 or step == a.steps:
            with torch.no_grad():
                view = torch.from_numpy(held_out[: 16 * 257].reshape(16, 257))
                held = F.cross_entropy(model(view[:, :-1]).flatten(0, 1), view[:, 1:].flatten())
            print(f"step {step}/{a.steps}  loss {loss:.3f}  held out {held:.3f}  {time.time() - begin:.0f} s", flush=True)
        if step % 500 == 0 or step == a.steps:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, a.checkpoint)
            with torch.no_grad():
                print(sample(model, tokenizer, "<|user|>\nTell me a story about a fox and a boat.<|end|>\n<|assistant|>\n"), flush=True)
            export(model, tokenizer, a.out)


if __name__ == "__main__":
    main()
