"""The Qwen3 architecture (q/k norm, grouped-query attention, SwiGLU, tied embeddings) in plain PyTorch.

`Transformer.hidden` serves training: packed rows in which `documents` numbers the conversation of each position, so that no
position sees another conversation. `Transformer.step` serves evaluation: greedy or sampled decoding of a padded batch with a
key-value cache. The parameters carry the hub's names, so that a state dict with the prefix `model.` is a checkpoint.
Shapes: B rows, T positions, H heads, D head size. Source: the Qwen3 technical report, and the public configuration format.
"""

import math

import torch
import torch.nn.functional as F

DEMO = {"hidden_size": 192, "num_hidden_layers": 6, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 32,
        "intermediate_size": 512}
DRAFT = {"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 32,
         "intermediate_size": 256}
SHARED = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True, "attention_bias": False, "attention_dropout": 0.0,
    "use_sliding_window": False, "bos_token_id": None, "torch_dtype": "bfloat16",
}


def make_config(shape, vocab_size, eos, pad):
    return {**SHARED, **shape, "vocab_size": vocab_size, "eos_token_id": eos, "pad_token_id": pad}


class Weight(torch.nn.Module):
    """A named parameter; a module of its own so that its name ends in `.weight` as the hub has it."""

    def __init__(self, *shape):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(shape) if len(shape) == 1 else torch.empty(shape))


def norm(x, scale, eps):
    return F.rms_norm(x, x.shape[-1:], scale.weight.to(x.dtype), eps)


def turn(x, cos, sin):
    """Rotary position embedding, halves layout."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class Attention(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv, self.dim, self.eps = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], c["rms_norm_eps"]
        hidden = c["hidden_size"]
        self.q_proj, self.o_proj = Weight(self.heads * self.dim, hidden), Weight(hidden, self.heads * self.dim)
        self.k_proj, self.v_proj = Weight(self.kv * self.dim, hidden), Weight(self.kv * self.dim, hidden)
        self.q_norm, self.k_norm = Weight(self.dim), Weight(self.dim)

    def forward(self, x, rotary, mask, cache=None):
        """x [B, T, hidden], mask [B, 1, T, past + T] additive. `cache` is a pair of [B, kv, past, D] or None; returns (y, pair).

        Plain batched products: at these row lengths they are faster on a CPU than the fused attention, whose backward pass is slow.
        """
        b, t, _ = x.shape
        weight = torch.cat((self.q_proj.weight, self.k_proj.weight, self.v_proj.weight)).to(x.dtype)
        qkv = F.linear(x, weight).view(b, t, -1, self.dim)
        q, k, v = qkv.split((self.heads, self.kv, self.kv), 2)
        q = turn(norm(q, self.q_norm, self.eps), *rotary).transpose(1, 2)
        k = turn(norm(k, self.k_norm, self.eps), *rotary).transpose(1, 2)
        v = v.transpose(1, 2)
        if cache is not None:
            k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
        total, group = k.shape[2], self.heads // self.kv
        scores = torch.bmm(q.reshape(b * self.kv, group * t, self.dim), k.reshape(-1, total, self.dim).transpose(1, 2))
        scores = scores.view(b, self.heads, t, total) * self.dim**-0.5 + mask
        shares = torch.softmax(scores, -1).view(b * self.kv, group * t, total)
        y = torch.bmm(shares, v.reshape(-1, total, self.dim)).view(b, self.heads, t, self.dim).transpose(1, 2)
        return F.linear(y.reshape(b, t, -1), self.o_proj.weight.to(x.dtype)), (k, v)


class Mlp(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        hidden, inner = c["hidden_size"], c["intermediate_size"]
        self.gate_proj, self.up_proj, self.down_proj = Weight(inner, hidden), Weight(inner, hidden), Weight(hidden, inner)

    def forward(self, x):
        gate, up = F.linear(x, torch.cat((self.gate_proj.weight, self.up_proj.weight)).to(x.dtype)).chunk(2, -1)
        return F.linear(F.silu(gate) * up, self.down_proj.weight.to(x.dtype))


class Block(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.eps = c["rms_norm_eps"]
        self.self_attn, self.mlp = Attention(c), Mlp(c)
        self.input_layernorm, self.post_attention_layernorm = Weight(c["hidden_size"]), Weight(c["hidden_size"])

    def forward(self, x, rotary, mask, cache=None):
        y, cache = self.self_attn(norm(x, self.input_layernorm, self.eps), rotary, mask, cache)
        x = x + y
        return x + self.mlp(norm(x, self.post_attention_layernorm, self.eps)), cache


class Transformer(torch.nn.Module):
    """Weights are kept in f32; `dtype` is the type of the activations and of the matrix products."""

    def __init__(self, c, dtype=torch.float32):
        super().__init__()
        self.c, self.dtype = c, dtype
        self.embed_tokens = Weight(c["vocab_size"], c["hidden_size"])
        self.layers = torch.nn.ModuleList(Block(c) for _ in range(c["num_hidden_layers"]))
        self.norm = Weight(c["hidden_size"])

    def initialise(self, seed):
        rng = torch.Generator().manual_seed(seed)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                last = name.endswith(("o_proj.weight", "down_proj.weight"))
                scale = 0.02 if "embed" in name else 0.5 / math.sqrt(p.shape[1]) / (math.sqrt(2 * len(self.layers)) if last else 1)
                torch.nn.init.normal_(p, std=scale, generator=rng)
        return self

    def rotary(self, positions):
        """cos and sin [.., T, 1, D] for positions [.., T], in the type of the activations."""
        dim = self.c["head_dim"]
        rate = self.c["rope_theta"] ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
        angle = positions[..., None].float() * rate
        angle = torch.cat((angle, angle), -1).unsqueeze(-2)
        return angle.cos().to(self.dtype), angle.sin().to(self.dtype)

    def hidden(self, ids, documents):
        """Final hidden states [B, T, hidden] of packed rows. Rotary angles are relative, so that positions need no restart."""
        b, t = ids.shape
        see = (documents[:, :, None] == documents[:, None, :]) & torch.ones(t, t, dtype=torch.bool).tril()
        mask = torch.zeros(b, 1, t, t, dtype=self.dtype).masked_fill(~see[:, None], -1e9)
        rotary = self.rotary(torch.arange(t))
        x = F.embedding(ids, self.embed_tokens.weight).to(self.dtype)
        for layer in self.layers:
            x, _ = layer(x, rotary, mask)
        return norm(x, self.norm, self.c["rms_norm_eps"])

    def logits(self, hidden):
        return F.linear(hidden, self.embed_tokens.weight.to(hidden.dtype)).float()

    def step(self, ids, positions, valid, cache):
        """One step of decoding: ids and positions [B, T], valid [B, past + T] marks real positions; returns logits of the last, cache."""
        t, total = ids.shape[1], valid.shape[1]
        see = torch.ones(t, total, dtype=torch.bool).tril(total - t) & valid[:, None, :]
        see |= torch.eye(t, total, dtype=torch.bool).roll(total - t, 1)
        mask = torch.zeros(ids.shape[0], 1, t, total, dtype=self.dtype).masked_fill(~see[:, None], -1e9)
        cos, sin = self.rotary(positions)
        x = F.embedding(ids, self.embed_tokens.weight).to(self.dtype)
        caches = []
        for i, layer in enumerate(self.layers):
            x, kept = layer(x, (cos, sin), mask, None if cache is None else cache[i])
            caches.append(kept)
        return self.logits(norm(x[:, -1], self.norm, self.c["rms_norm_eps"])), caches
