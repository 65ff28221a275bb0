"""Trains speculative heads for an exported model and writes their folders: Medusa of both versions and an MLP speculator.

    python heads.py --data data --model ../../models/demo --out ../../models --minutes 8

The model is frozen. Its hidden states over the data of make_data.py are computed once (states.pt in --data); the heads learn the
model's own greedy token wherever the conversation followed the greedy path up to there. The acceptance is over greedy answers to
held-out cases. The rate falls by the clock: the result differs a little from run to run.
Each folder gets config.json, the tensors in bfloat16, golden.json (guesses and logits for the tests of servers) and a model card.
"""

import argparse
import json
import pathlib
import time

import torch
import torch.nn.functional as F

import speculators
import train
from decode import Exported
from evaluate import read_cases

STATE = {"base_model_name_or_path": "../demo", "torch_dtype": "bfloat16"}
MEDUSA = {**STATE, "medusa_num_layers": 1}
MLP = {"architectures": ["MLPSpeculatorPreTrainedModel"], "model_type": "mlp_speculator", **STATE, "scale_input": True,
       "tie_weights": True, "n_predict": 3, "inner_dim": 32, "top_k_tokens_per_head": [1, 1, 1]}
# name: configuration, whether the projection is the model's, rate of AdamW. One head of the first version is 1.25 MB here.
KINDS = {
    "demo-medusa": ({**MEDUSA, "medusa_num_heads": 1}, False, 0.001),
    "demo-medusa2": ({**MEDUSA, "medusa_num_heads": 3}, True, 0.015),
    "demo-mlp-speculator": (MLP, False, 0.015),
}
HEADS = 3
NONE = -1
GAP = 0.05
WARM_UP = 0.02


@torch.no_grad()
def features(model, data, seed, limit):
    """Of `limit` places whose next token is learned: hidden states [N, H], the HEADS tokens that follow [N, HEADS], and the
    model's greedy token after each of these, or NONE where one of them is not itself the greedy choice or the answer ends."""
    hidden, following, targets, count = [], [], [], 0
    for length, rows in train.make_batches(data.lengths, seed, 4096):
        ids, documents, places, _ = data.batch(length, rows)
        states = model.hidden(ids, documents).flatten(0, 1)[places]
        best = torch.full((ids.numel() + HEADS,), NONE)
        best[places] = model.logits(states).argmax(-1)
        after = places[:, None] + torch.arange(1, HEADS + 1)
        tokens = F.pad(ids.flatten(), (0, HEADS))[after]
        on_path = (tokens == best[after - 1]).cumprod(1).bool()
        hidden.append(states.bfloat16())
        following.append(tokens)
        targets.append(torch.where(on_path, best[after], NONE))
        count += len(places)
        if count >= limit:
            break
    return torch.cat(hidden), torch.cat(following), torch.cat(targets)


def learn(speculator, rate, known, minutes, batch, seed):
    """AdamW with warm-up and linear decay by the clock. `known` is what `features` gives; returns the places read."""
    hidden, following, targets = known
    parameters = [tensor.requires_grad_() for tensor in speculator.tensors.values()]
    adam = torch.optim.AdamW(parameters, lr=rate, betas=train.BETAS, weight_decay=0.0)
    rng, begin, shown, read, losses = torch.Generator().manual_seed(seed), time.time(), time.time(), 0, []
    order = torch.empty(0, dtype=torch.int64)
    while (share := (time.time() - begin) / (60 * minutes)) < 1:
        if len(order) < batch:
            order = torch.randperm(len(hidden), generator=rng)
        chosen, order = order[:batch], order[batch:]
        logits = speculator.logits(hidden[chosen], following[chosen])
        loss = F.cross_entropy(logits.flatten(0, 1), targets[chosen, :speculator.heads].flatten(), ignore_index=NONE)
        adam.zero_grad()
        loss.backward()
        for group in adam.param_groups:
            group["lr"] = rate * min(1.0, (share + 1e-4) / WARM_UP) * (1 - share)
        adam.step()
        read += len(chosen)
        losses.append(loss.item())
        if time.time() - shown > 20:
            print(f"  {share:6.1%} {read:,} places, loss {sum(losses) / len(losses):.4f}", flush=True)
            shown, losses = time.time(), []
    return read


@torch.no_grad()
def acceptance(speculator, answers):
    """`answers`: (hidden states [T, H], greedy tokens that follow each [T]) of greedy answers. For each head the share of its
    guesses that are the greedy token, and the mean number of tokens taken a round, as far as answers go on."""
    right, asked = [0] * speculator.heads, [0] * speculator.heads
    taken, rounds = 0, 0
    for hidden, tokens in answers:
        guesses = speculator.logits(hidden, tokens[:, None]).argmax(-1)
        agree = []
        for t in range(len(tokens)):
            meant = tokens[t + 1: t + 1 + speculator.heads]
            agree.append((guesses[t, :len(meant)] == meant).tolist())
            for i, same in enumerate(agree[-1]):
                right[i] += same
                asked[i] += 1
        t = 0
        while t < len(tokens) - 1:
            run = (*agree[t], False).index(False)
            taken, rounds, t = taken + run, rounds + 1, t + run + 1
    return [r / a for r, a in zip(right, asked)], taken / rounds


@torch.no_grad()
def greedy_answers(model, cases):
    """What `acceptance` takes, of the model's own greedy answers."""
    prompts = [model.prompt_ids(c) for c in cases]
    for prompt, answer in zip(prompts, model.generate(prompts)):
        ids = torch.tensor([prompt + answer])
        yield model.model.hidden(ids, torch.ones_like(ids))[0, len(prompt) - 1: -1], torch.tensor(answer)


@torch.no_grad()
def golden(speculator, model, goldens):
    """Guesses and their five best logits behind prompts of `goldens` and beginnings of their answers, where none is close."""
    for number, entry in enumerate(goldens["entries"]):
        told = number % 4
        if len(entry["ids"]) <= told + speculator.heads or entry["gaps"][told] < GAP:
            continue
        context = entry["prompt_ids"] + entry["ids"][:told]
        ids = torch.tensor([context])
        hidden, token = model.model.hidden(ids, torch.ones_like(ids))[0, -1:], entry["ids"][told]
        logits, best = speculator.logits(hidden, torch.tensor([[token]]))[0].topk(5)
        if (logits[:, 0] - logits[:, 1]).min() >= GAP:
            top = [[[i, round(x, 4)] for i, x in zip(*pair)] for pair in zip(best.tolist(), logits.tolist())]
            yield {"context": context, "next": token, "guesses": best[:, 0].tolist(), "top": top}


def write_golden(path, entries):
    source = "PyTorch, float32 from bfloat16 weights; the hidden state is that of ../demo after its final norm, at the last id of context"
    lines = ",\n".join(map(json.dumps, entries))
    path.write_text(f'{{"source": "{source}", "entries": [\n{lines}\n]}}\n')


CARD = """---
license: apache-2.0
language: en
---

# {title} for the demo model

{what}
For `models/demo`, which `base_model_name_or_path` names relative to this folder. Trained by `tools/demo_model/heads.py` on the frozen model, one CPU core, {minutes:g} minutes of the clock, {read:.1f} million places of conversations that our own generators write; targets are the model's own
greedy tokens. bfloat16, {size:,} bytes. Licence: Apache-2.0.

Behind the model's next token {heads} more {verb} guessed in a round. On greedy answers to {cases} held-out conversations ({places:,} tokens):

| guess | is the greedy token |
|---|---|
{rows}

{taken:.2f} of {heads} are taken on average in a round.

`golden.json`: for {goldens} contexts (`context`: token ids of a rendered prompt, some with the beginning of its answer) the model's greedy token
`next`, the guesses behind it, and for each guess the five best logits as [id, logit]; computed in float32 by `tools/demo_model/speculators.py` from the hidden
state after the final norm at the last id of the context. Contexts where two best logits are closer than {gap} are left out.
"""
ABOUT = {
    "demo-medusa": ("A Medusa head (first version)", "One residual block and a projection to the vocabulary of its own; each such head "
                    "is 1.25 MB here, so there is one."),
    "demo-medusa2": ("Medusa heads (second version)", "One residual block a head; the projection to the vocabulary is the model's."),
    "demo-mlp-speculator": ("An MLP speculator", "Inner size 32, tied weights, scaled input; each step takes in the token that the step "
                            "before guessed."),
}


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", type=pathlib.Path, required=True)
    p.add_argument("--model", type=pathlib.Path, required=True)
    p.add_argument("--out", type=pathlib.Path, required=True, help="the folders are written into this one")
    p.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    p.add_argument("--minutes", type=float, default=8, help="for each kind")
    p.add_argument("--places", type=float, default=6e5, help="hidden states to learn from, where they are not yet computed")
    p.add_argument("--batch", type=int, default=512, help="places a step")
    p.add_argument("--each", type=int, default=15, help="held-out cases a task for the acceptance")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    model, begin = Exported(a.model), time.time()
    lm_head = model.model.embed_tokens.weight.detach()
    kept = a.data / "states.pt"
    if not kept.exists():
        torch.save(features(Exported(a.model, torch.bfloat16).model, train.Data(a.data), a.seed, a.places), kept)
    known = torch.load(kept)
    met = [f"{share:.1%}" for share in (known[2] != NONE).float().mean(0).tolist()]
    print(f"{len(known[0]):,} places, {time.time() - begin:.0f} s, with a greedy token to guess: {met}", flush=True)
    _, cases = read_cases(a.data / "held.jsonl", a.each)
    answers = list(greedy_answers(model, cases))
    goldens = json.loads((a.model / "golden.json").read_text())
    for name in a.kinds:
        config, shared, rate = KINDS[name]
        if "model_type" in config:
            config = {**config, "vocab_size": len(lm_head), "emb_dim": lm_head.shape[1]}
        folder, speculator = a.out / name, speculators.make(config, lm_head, shared)
        print(name, flush=True)
        read = learn(speculator, rate, known, a.minutes, a.batch, a.seed)
        speculators.save(speculator, config, folder)
        speculator = speculators.load(folder, lm_head)
        shares, taken = acceptance(speculator, answers)
        entries = list(golden(speculator, model, goldens))
        write_golden(folder / "golden.json", entries)
        (title, what), size = ABOUT[name], (folder / speculator.FILE).stat().st_size
        rows = "\n".join(f"| {i} | {share:.1%} |" for i, share in enumerate(shares, 1))
        (folder / "README.md").write_text(CARD.format(
            title=title, what=what, minutes=a.minutes, read=read / 1e6, size=size, heads=speculator.heads,
            verb="is" if speculator.heads == 1 else "are", cases=len(cases),
            places=sum(len(tokens) for _, tokens in answers), rows=rows, taken=taken, goldens=len(entries), gap=GAP))
        print(f"  accepted by head {[f'{share:.1%}' for share in shares]}, {taken:.2f} of {speculator.heads} taken a round, "
              f"{size:,} bytes, {len(entries)} golden contexts", flush=True)


if __name__ == "__main__":
    main()
