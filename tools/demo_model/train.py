"""Trains the demo model or its draft from the data of make_data.py.

    python train.py --data data --checkpoint checkpoint --tokens 30e6          # schedule by tokens: the same result on each run
    python train.py --data data --checkpoint checkpoint --minutes 85           # schedule by the clock: ends in time on any machine
    python train.py --data data --checkpoint checkpoint --minutes 60 --extend  # goes on from a finished run with a new schedule
    python train.py --data data --checkpoint draft --minutes 50 --draft --teacher ../../models/demo

Muon (Jordan et al., 2024: momentum made orthogonal by a Newton-Schulz iteration) for the matrices, AdamW for the embedding and the
norms; warm-up, then linear decay to zero. The loss counts the assistant's tokens alone, and logits are computed only there. Conversations
are packed into rows that hide them from each other. An interrupted run resumes from its checkpoint. With --teacher what is learned is not
the token of the data but the distribution that this model gives there (Hinton et al., 2015): a draft has to guess the model, not the data.
"""

import argparse
import json
import os
import pathlib
import time

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import model as net
import tokenizer as tk
from decode import Exported

ROW_LENGTHS = (128, 192, 256, 384, 512, 768, 1024, 1536)
WINDOW = 1024
WARM_UP = 0.02
BETAS = (0.9, 0.95)


class Muon:
    """Matrices of one shape are updated together. Rates are those of the reference: 0.02 and momentum 0.95."""

    def __init__(self, parameters, momentum=0.95, decay=0.01):
        self.groups, self.momentum, self.decay = {}, momentum, decay
        for p in parameters:
            self.groups.setdefault(tuple(p.shape), []).append(p)
        self.state = {shape: torch.zeros(len(group), *shape) for shape, group in self.groups.items()}

    @staticmethod
    def orthogonal(x):
        """Five steps of the quintic Newton-Schulz iteration, in bf16. x [N, rows, columns]."""
        x = x.bfloat16()
        tall = x.shape[1] > x.shape[2]
        if tall:
            x = x.transpose(1, 2)
        x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
        for _ in range(5):
            a = torch.bmm(x, x.transpose(1, 2))
            b = torch.baddbmm(a, a, a, beta=-4.7750, alpha=2.0315)
            x = torch.baddbmm(x, b, x, beta=3.4445)
        return (x.transpose(1, 2) if tall else x).float()

    @torch.no_grad()
    def step(self, rate):
        for shape, group in self.groups.items():
            gradient, moment = torch.stack([p.grad for p in group]), self.state[shape]
            moment.lerp_(gradient, 1 - self.momentum)
            update = self.orthogonal(gradient.lerp(moment, self.momentum))
            scale = rate * max(1.0, shape[0] / shape[1]) ** 0.5
            for p, u in zip(group, update):
                p.mul_(1 - rate * self.decay).add_(u, alpha=-scale)


def pack(lengths, seed):
    """Rows (length, [conversations]) that hold every conversation once, in an order that follows from the seed."""
    rng = np.random.default_rng(seed)
    order, rows = rng.permutation(len(lengths)), []
    for at in range(0, len(order), WINDOW):
        window = order[at: at + WINDOW]
        window = window[np.argsort(-lengths[window], kind="stable")]
        room, members = np.empty(0, dtype=np.int64), []
        for i in window:
            fits = np.nonzero(room >= lengths[i])[0]
            if len(fits):
                row = fits[np.argmin(room[fits])]
            else:
                length = next(n for n in ROW_LENGTHS if n >= lengths[i])
                row, room = len(members), np.append(room, length)
                members.append((length, []))
            room[row] -= lengths[i]
            members[row][1].append(int(i))
        rows += members
    return rows


def make_batches(lengths, seed, size):
    """Batches of rows of equal length, about `size` tokens each, shuffled."""
    rows, batches = {}, []
    for length, members in pack(lengths, seed):
        rows.setdefault(length, []).append(members)
        if len(rows[length]) * length >= size:
            batches.append((length, rows.pop(length)))
    batches += rows.items()
    return [batches[i] for i in np.random.default_rng(seed + 1).permutation(len(batches))]


class Data:
    def __init__(self, folder):
        load = lambda name: np.load(folder / f"{name}.npy")
        self.ids, self.mask, self.ends = load("ids"), load("mask"), load("ends")
        self.begins = np.concatenate(([0], self.ends[:-1]))
        self.lengths = self.ends - self.begins

    def batch(self, length, rows):
        """ids [B, T], document numbers [B, T] (0 is padding), and the flat places whose next token is learned with these tokens."""
        shape = (len(rows), length)
        ids, documents, learned = np.full(shape, tk.PAD, dtype=np.int64), np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=bool)
        for r, members in enumerate(rows):
            at = 0
            for number, i in enumerate(members, 1):
                span, n = slice(self.begins[i], self.ends[i]), self.lengths[i]
                ids[r, at: at + n], documents[r, at: at + n] = self.ids[span], number
                learned[r, at: at + n - 1] = self.mask[span][1:]
                at += n
        places = np.nonzero(learned.ravel())[0]
        return torch.from_numpy(ids), torch.from_numpy(documents), torch.from_numpy(places), torch.from_numpy(ids.ravel()[places + 1])


class Run:
    """Model, optimisers and the place in data and schedule: all that a checkpoint holds."""

    def __init__(self, a, data):
        vocabulary = Tokenizer.from_file(str(a.data / "tokenizer" / "tokenizer.json")).get_vocab_size()
        self.config = net.make_config(net.DRAFT if a.draft else net.DEMO, vocabulary, tk.END, tk.PAD)
        dtype = torch.bfloat16 if a.dtype == "bf16" else torch.float32
        self.model = net.Transformer(self.config, dtype).initialise(a.seed)
        self.teacher = Exported(a.teacher, dtype).model if a.teacher else None
        matrices = [p for n, p in self.model.named_parameters() if p.dim() == 2 and "embed" not in n]
        rest = [p for n, p in self.model.named_parameters() if p.dim() != 2 or "embed" in n]
        self.muon, self.adam = Muon(matrices), torch.optim.AdamW(rest, lr=a.rate, betas=BETAS, weight_decay=0.0)
        self.place = {"epoch": 0, "batch": 0, "step": 0, "tokens": 0, "seconds": 0.0, "total_tokens": 0, "total_seconds": 0.0}
        self.a, self.data, self.batches = a, data, None

    def save(self):
        path = self.a.checkpoint / "checkpoint.pt"
        torch.save({"config": self.config, "model": self.model.state_dict(), "muon": self.muon.state, "adam": self.adam.state_dict(),
                    "place": self.place, "arguments": {k: str(v) for k, v in vars(self.a).items()}}, str(path) + ".new")
        os.replace(str(path) + ".new", path)

    def load(self):
        path = self.a.checkpoint / "checkpoint.pt"
        if not path.exists():
            return False
        saved = torch.load(path)
        self.model.load_state_dict(saved["model"])
        self.muon.state = saved["muon"]
        self.adam.load_state_dict(saved["adam"])
        self.place = saved["place"]
        if saved["arguments"]["data"] != str(self.a.data):
            self.place.update(epoch=0, batch=0)
        return True

    def next_batch(self):
        place = self.place
        if self.batches is None:
            self.batches = make_batches(self.data.lengths, self.a.seed + 100 * place["epoch"], self.a.batch)
        if place["batch"] >= len(self.batches):
            place["epoch"], place["batch"] = place["epoch"] + 1, 0
            self.batches = None
            return self.next_batch()
        place["batch"] += 1
        return self.data.batch(*self.batches[place["batch"] - 1])

    def progress(self):
        a, place = self.a, self.place
        return place["tokens"] / a.tokens if a.tokens else place["seconds"] / (60 * a.minutes)

    def learn(self):
        """One step; returns (loss per learned token, tokens read)."""
        ids, documents, places, targets = self.next_batch()
        if self.teacher:
            with torch.no_grad():
                targets = self.teacher.logits(self.teacher.hidden(ids, documents).flatten(0, 1)[places]).softmax(-1)
        hidden = self.model.hidden(ids, documents).flatten(0, 1)
        loss = F.cross_entropy(self.model.logits(hidden[places]), targets)
        for p in self.model.parameters():
            p.grad = None
        loss.backward()
        share = self.progress()
        factor = min(1.0, (share + 1e-4) / WARM_UP) * max(0.0, 1 - share)
        self.muon.step(self.a.muon_rate * factor)
        for group in self.adam.param_groups:
            group["lr"] = self.a.rate * factor
        self.adam.step()
        return loss.item(), int((documents > 0).sum())


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", type=pathlib.Path, required=True)
    p.add_argument("--checkpoint", type=pathlib.Path, required=True, help="folder of the checkpoint")
    p.add_argument("--tokens", type=float, default=0, help="budget of the schedule in tokens")
    p.add_argument("--minutes", type=float, default=0, help="budget of the schedule in minutes, in place of tokens")
    p.add_argument("--until", type=float, default=1.0, help="stop at this share of the schedule; a later call goes on, with other data if given")
    p.add_argument("--extend", action="store_true", help="start a new schedule from the checkpoint of a finished one")
    p.add_argument("--draft", action="store_true", help="train the draft model")
    p.add_argument("--teacher", type=pathlib.Path, help="exported model of the same tokenizer whose distribution is learned")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--dtype", choices=("bf16", "f32"), default="bf16", help="type of activations; weights stay in f32")
    p.add_argument("--batch", type=int, default=4096, help="tokens a step")
    p.add_argument("--muon-rate", type=float, default=0.02)
    p.add_argument("--rate", type=float, default=0.003, help="AdamW's")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--save-minutes", type=float, default=3)
    a = p.parse_args()
    if bool(a.tokens) == bool(a.minutes):
        p.error("give one of --tokens and --minutes")
    return a


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    a.checkpoint.mkdir(parents=True, exist_ok=True)
    run = Run(a, Data(a.data))
    resumed = run.load()
    place = run.place
    if a.extend and resumed:
        place.update(step=0, tokens=0, seconds=0.0)
    sizes = sum(p.numel() for p in run.model.parameters())
    print(f"{sizes:,} parameters, {len(run.data.ids):,} tokens of data, {run.progress():.0%} of the schedule done", flush=True)
    (a.checkpoint / "config.json").write_text(json.dumps(run.config, indent=2) + "\n")
    shown = saved = last = time.time()
    losses, tokens = [], 0
    while run.progress() < a.until:
        loss, count = run.learn()
        now = time.time()
        place["step"] += 1
        for name, amount in (("tokens", count), ("total_tokens", count), ("seconds", now - last), ("total_seconds", now - last)):
            place[name] += amount
        last = now
        losses.append(loss)
        tokens += count
        if now - shown > 20 or run.progress() >= a.until:
            speed, share = tokens / (now - shown), run.progress()
            left = place["seconds"] / max(share, 1e-6) * (1 - share)
            print(f"{time.strftime('%H:%M:%S')} step {place['step']} {share:6.1%} {place['tokens'] / 1e6:.2f} M tokens  "
                  f"loss {np.mean(losses):.4f}  {speed:,.0f} tokens/s  {left / 60:.1f} min left", flush=True)
            shown, losses, tokens = now, [], 0
        if now - saved > 60 * a.save_minutes:
            run.save()
            saved = now
    run.save()
    print("done", flush=True)


if __name__ == "__main__":
    main()
