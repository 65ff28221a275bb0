"""An exported folder with our own model code: prompts, batched decoding, and teacher-forced logits."""

import json

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

import model as net
import tokenizer as tk


class Exported:
    """dtype is the type of the activations; weights are what the file holds."""

    def __init__(self, folder, dtype=torch.float32):
        self.model = net.Transformer(json.loads((folder / "config.json").read_text()), dtype)
        tensors = load_file(folder / "model.safetensors")
        self.model.load_state_dict({name.removeprefix("model."): t.float() for name, t in tensors.items()})
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def conversation_ids(self, pieces):
        """ids and, for each, whether it is the assistant's."""
        ids, mine = [], []
        for role, text, calls in pieces:
            body = self.tokenizer.encode(text, add_special_tokens=False).ids
            for call in calls:
                body += [tk.TOOL_CALL, *self.tokenizer.encode(call, add_special_tokens=False).ids]
            ids += [tk.ROLE_IDS[role], *body, tk.END]
            mine += [False, *[role == "assistant"] * (len(body) + 1)]
        return ids, mine

    def prompt_ids(self, case):
        """The conversation up to its last answer."""
        ids, _ = self.conversation_ids(tk.render({**case, "messages": case["messages"][:-1]}))
        return [*ids, tk.ASSISTANT]

    @torch.no_grad()
    def generate(self, prompts, limit=300, temperature=0.0, seed=0, batch=64):
        """Answers as ids, without the end token where it came within `limit` tokens."""
        answers, rng = [None] * len(prompts), torch.Generator().manual_seed(seed)
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        for at in range(0, len(order), batch):
            members = order[at: at + batch]
            for i, answer in zip(members, self._generate_batch([prompts[i] for i in members], limit, temperature, rng)):
                answers[i] = answer
        return answers

    def _generate_batch(self, prompts, limit, temperature, rng):
        longest = max(map(len, prompts))
        ids = torch.tensor([[tk.PAD] * (longest - len(p)) + p for p in prompts])
        valid = torch.tensor([[False] * (longest - len(p)) + [True] * len(p) for p in prompts])
        positions = (valid.cumsum(1) - 1).clamp(min=0)
        answers, running, cache = [[] for _ in prompts], list(range(len(prompts))), None
        for _ in range(limit):
            logits, cache = self.model.step(ids, positions, valid, cache)
            if temperature:
                chosen = torch.multinomial(torch.softmax(logits / temperature, -1), 1, generator=rng)[:, 0]
            else:
                chosen = logits.argmax(-1)
            for row, token in zip(running, chosen.tolist()):
                answers[row].append(token)
            keep = (chosen != tk.END).nonzero()[:, 0]
            if not len(keep):
                break
            running = [running[i] for i in keep.tolist()]
            ids, positions = chosen[keep, None], positions[keep, -1:] + 1
            valid = torch.cat((valid[keep], torch.ones(len(keep), 1, dtype=torch.bool)), 1)
            cache = [(k[keep], v[keep]) for k, v in cache]
        return answers

    def text(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=True)

    @torch.no_grad()
    def logits(self, ids):
        """Teacher-forced logits [T, vocabulary] of one sequence."""
        ids = torch.tensor([ids])
        return self.model.logits(self.model.hidden(ids, torch.ones_like(ids))[0])
