"""Speculative heads in plain PyTorch, with the tensor names of such repositories on the hub.

Each guesses the tokens behind the next one from one hidden state of the model, after its final norm: guess i of the state at
position t is the token at t + 2 + i. H is the hidden size, V the vocabulary, N the inner size. Sources: Cai et al., 2024 (Medusa);
Wertheimer et al., 2024 (MLP speculator), and the public repositories and configurations of both.
"""

import json
import math

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file


def linear(x, weight, bias=None):
    """In the type of the activations."""
    return F.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))


class Medusa:
    """Head i: residual blocks x + SiLU(W x + b), then a projection of its own (first version) or the model's (second version)."""

    FILE = "medusa_lm_head.safetensors"

    def __init__(self, config, lm_head, shared):
        hidden, self.layers = lm_head.shape[1], config["medusa_num_layers"]
        self.heads, self.lm_head, self.tensors = config["medusa_num_heads"], lm_head if shared else None, {}
        for i in range(self.heads):
            for layer in range(self.layers):
                self.tensors[f"{i}.{layer}.linear.weight"] = torch.zeros(hidden, hidden)
                self.tensors[f"{i}.{layer}.linear.bias"] = torch.zeros(hidden)
            if not shared:
                self.tensors[f"{i}.{self.layers}.weight"] = lm_head.clone()

    def head(self, i, x):
        for layer in range(self.layers):
            name = f"{i}.{layer}.linear"
            x = x + F.silu(linear(x, self.tensors[name + ".weight"], self.tensors[name + ".bias"]))
        return linear(x, self.tensors[f"{i}.{self.layers}.weight"] if self.lm_head is None else self.lm_head)

    def logits(self, hidden, ids):
        """[rows, heads, V]; `ids`, the tokens that follow, have no part in them."""
        return torch.stack([self.head(i, hidden) for i in range(self.heads)], 1).float()


class MlpSpeculator:
    """A small recurrent net: its state takes in the tokens so far, each guess among them. Weights are tied over the steps."""

    FILE = "model.safetensors"

    def __init__(self, config, lm_head):
        self.heads, inner, (vocabulary, hidden) = config["n_predict"], config["inner_dim"], lm_head.shape
        assert config["tie_weights"] and self.heads > 1
        self.scale_input = config["scale_input"]
        self.state_share = 0.5 ** (0.5 / self.heads)
        self.id_share = math.sqrt(1 - self.state_share**2) * math.sqrt(inner / 2)
        rng = torch.Generator().manual_seed(1)
        shapes = {"emb": (vocabulary, inner), "proj": (inner, hidden), "head": (vocabulary, inner), "ln": (inner,)}
        self.tensors = {f"speculator.{name}.0.weight": torch.ones(shape) if name == "ln" else
                        torch.randn(shape, generator=rng) / math.sqrt(shape[1]) for name, shape in shapes.items()}
        self.tensors["speculator.proj.1.weight"] = torch.randn(inner, inner, generator=rng) / math.sqrt(inner)
        self.tensors["speculator.ln.0.bias"] = torch.zeros(inner)

    def logits(self, hidden, ids):
        """[rows, heads, V]. ids [rows, 1 or more]: the token after `hidden`, and those after it where they are known; a step
        without one takes the guess before it."""
        tensor = lambda name: self.tensors[f"speculator.{name}"].to(hidden.dtype)
        normed = lambda x: F.rms_norm(x, x.shape[-1:], eps=1e-6)
        state, logits = normed(hidden) / math.sqrt(2) if self.scale_input else hidden, []
        for i in range(self.heads):
            taken = ids[:, i] if i < ids.shape[1] else logits[-1].argmax(-1)
            state = F.linear(state, tensor(f"proj.{min(i, 1)}.weight")) * self.state_share
            state = state + F.embedding(taken, self.tensors["speculator.emb.0.weight"]).to(state.dtype) * self.id_share
            state = F.gelu(normed(state) * tensor("ln.0.weight") + tensor("ln.0.bias"))
            logits.append(F.linear(state, tensor("head.0.weight")))
        return torch.stack(logits, 1).float()


def make(config, lm_head, shared):
    """`shared`: guess with the model's own projection, where the kind has a choice."""
    if config.get("model_type") == "mlp_speculator":
        return MlpSpeculator(config, lm_head)
    return Medusa(config, lm_head, shared)


def save(speculator, config, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tensors = {name: t.detach().bfloat16().contiguous() for name, t in sorted(speculator.tensors.items())}
    save_file(tensors, str(folder / speculator.FILE), {"format": "pt"})
    (folder / speculator.FILE).chmod(0o644)


def load(folder, lm_head):
    """A folder's heads; without a projection of their own they take the model's, `lm_head` [V, H]."""
    config = json.loads((folder / "config.json").read_text())
    file = MlpSpeculator.FILE if config.get("model_type") == "mlp_speculator" else Medusa.FILE
    tensors = load_file(folder / file)
    own = f"0.{config.get('medusa_num_layers')}.weight" in tensors
    speculator = make(config, lm_head, not own)
    if set(tensors) != set(speculator.tensors):
        raise ValueError(f"{folder}: tensors differ: {sorted(set(tensors) ^ set(speculator.tensors))}")
    for name, tensor in tensors.items():
        speculator.tensors[name] = tensor.float()
    return speculator
