"""Writes the training data: token ids, loss mask and conversation bounds, and the held-out cases.

    python make_data.py --out data --tokens 32e6
    python make_data.py --out data2 --tokens 16e6 --seed 2 --boost sort_words=2,faq=0.7    # for a second stage of training

Into --out: tokenizer/ (made when missing), ids.npy (uint16), mask.npy (uint8: 1 where the token is the assistant's and is
learned), ends.npy (int64, end of each conversation) and held.jsonl (cases whose keys training never sees). About one conversation
in a hundred is a long chain of 700 to 1,500 tokens. Everything follows from --seed.
"""

import argparse
import collections
import json
import pathlib
import random
import sys
import time

import numpy as np
from tokenizers import Tokenizer

import tokenizer as tk
from tasks import TASKS, draw

LONGEST = 1536
CHUNK = 2000
LONG_SHARE = 0.0015


def long_chain(rng):
    """Conversations without tools or system turn, one after the other until the chain is long."""
    goal, size, messages = rng.randint(2600, 5200), 0, []
    while size < goal:
        case = draw(rng, "train")
        if "tools" in case or case["messages"][0]["role"] == "system" or case["task"] == "memory":
            continue
        messages += case["messages"]
        size += sum(len(m["content"]) + 10 for m in case["messages"])
    return {"task": "long", "messages": messages}


def parse_boost(text):
    """Chance to keep a case, by task: "a=2,b=0.5" draws a twice as often as others, and b half as often."""
    factors = {name: float(factor) for name, _, factor in (part.partition("=") for part in text.split(",") if part)}
    unknown = set(factors) - set(TASKS)
    if unknown:
        raise SystemExit(f"no such task: {', '.join(sorted(unknown))}")
    most = max([1.0, *factors.values()])
    return {name: factors.get(name, 1.0) / most for name in [*TASKS, "long"]}


def encode(tokenizer, cases):
    """For each case its ids and mask."""
    pieces = [tk.render(case) for case in cases]
    texts = [t for parts in pieces for _, text, calls in parts for t in (text, *calls)]
    encoded = iter(tokenizer.encode_batch(texts, add_special_tokens=False))
    for parts in pieces:
        ids, mask = [], []
        for role, _, calls in parts:
            body = list(next(encoded).ids)
            for _ in calls:
                body += [tk.TOOL_CALL, *next(encoded).ids]
            ids += [tk.ROLE_IDS[role], *body, tk.END]
            mask += [0, *[int(role == "assistant")] * (len(body) + 1)]
        yield ids, mask


def show(tokenizer, ids, mask):
    """Decoded text with the learned spans in square brackets."""
    out, inside = [], False
    for i, m in zip(ids, mask):
        if bool(m) != inside:
            out.append("⟦" if m else "⟧")
            inside = bool(m)
        out.append(tokenizer.decode([int(i)], skip_special_tokens=False))
    return "".join(out) + ("⟧" if inside else "")


def write_held(path, seed, each):
    """`each` held-out cases of every task alone, and 4 times as many drawn from the mixture, which chains turns ("mixed")."""
    rng = random.Random(seed)
    cases = [task.generate(rng, "held") for task in TASKS.values() for _ in range(each)]
    cases += [{**draw(rng, "held"), "mixed": True} for _ in range(4 * each)]
    path.write_text("".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--tokens", type=float, default=32e6)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--boost", default="", help="factors on the shares of tasks: NAME=FACTOR,...; a chain counts as its last task")
    p.add_argument("--held", type=int, default=120, help="held-out cases a task")
    p.add_argument("--held-only", action="store_true", help="write held.jsonl alone")
    p.add_argument("--show", type=int, default=0, help="print so many samples with their masks")
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    write_held(a.out / "held.jsonl", a.seed + 2000, a.held)
    if a.held_only:
        return
    folder = a.out / "tokenizer"
    if not (folder / "tokenizer.json").exists():
        rng = random.Random(a.seed + 1000)
        cases = [draw(rng, "train") for _ in range(60000)]
        tk.check_template(cases[:3000])
        tk.save_tokenizer(tk.train_tokenizer(cases), folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    rng, keep = random.Random(a.seed), parse_boost(a.boost)
    ids, mask, ends, total, begin = [], [], [], 0, time.time()
    counts, answers = collections.Counter(), collections.Counter()
    while total < a.tokens:
        cases = [long_chain(rng) if rng.random() < LONG_SHARE else draw(rng, "train") for _ in range(CHUNK)]
        cases = [case for case in cases if rng.random() < keep[case["task"]]]
        for case, (i, m) in zip(cases, encode(tokenizer, cases)):
            if a.show > len(ends):
                print(case["task"], show(tokenizer, i, m))
            if len(i) > LONGEST:
                continue
            total += len(i)
            ids.append(np.array(i, dtype=np.uint16))
            mask.append(np.array(m, dtype=np.uint8))
            ends.append(total)
            counts[case["task"]] += 1
            answers[case["task"]] += sum(m)
        sys.stderr.write(f"\r{total:,} tokens, {len(ends):,} conversations, {total / (time.time() - begin):,.0f} tokens/s ")
    sys.stderr.write("\n")
    ids, mask = np.concatenate(ids), np.concatenate(mask)
    np.save(a.out / "ids.npy", ids)
    np.save(a.out / "mask.npy", mask)
    np.save(a.out / "ends.npy", np.array(ends, dtype=np.int64))
    print(f"{len(ends):,} conversations, {total:,} tokens, {mask.mean():.0%} of them learned")
    for name, n in counts.most_common():
        print(f"  {name:16} {n:8,} {n / len(ends):6.1%} {answers[name] / n:6.1f} learned tokens each")


if __name__ == "__main__":
    main()
