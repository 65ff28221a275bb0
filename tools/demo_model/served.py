"""Perplexity and greedy answers of an exported model through a running server, for each type of weights that it serves.

    text-generation-launcher --model-id ../../models/demo --quantize int8 --port 3000 &
    python served.py --url http://127.0.0.1:3000 --model ../../models/demo --held data/held.jsonl

The prompts are sent as text with their marker tokens to /generate; the perplexity is over the same tokens as evaluate.py's.
Prints also how many greedy answers equal those of our own code in f32.
"""

import argparse
import json
import math
import pathlib
import urllib.request

import torch

import tokenizer as tk
from decode import Exported
from evaluate import read_cases


def generate(url, text, **parameters):
    body = json.dumps({"inputs": text, "parameters": {"details": True, **parameters}}).encode()
    request = urllib.request.Request(url + "/generate", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def log_probabilities(url, model, case):
    """Those of the assistant's tokens of a conversation."""
    ids, mine = model.conversation_ids(tk.render(case))
    prefill = generate(url, tk.as_text(tk.render(case)), decoder_input_details=True, max_new_tokens=1)["details"]["prefill"]
    if [token["id"] for token in prefill] != ids:
        raise SystemExit(f"the server reads other tokens than the tokenizer: {tk.as_text(tk.render(case))!r}")
    return [token["logprob"] for token, learned in zip(prefill, mine) if learned]


def gap_where_they_part(model, prompt, ours, theirs):
    """How far apart the two best logits of float32 are at the first token that differs."""
    at = next((i for i, (one, other) in enumerate(zip(ours, theirs)) if one != other), min(len(ours), len(theirs)))
    best = model.logits(prompt + ours[:at])[-1].topk(2).values
    return float(best[0] - best[1])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--url", required=True)
    p.add_argument("--model", type=pathlib.Path, required=True)
    p.add_argument("--held", type=pathlib.Path, required=True)
    p.add_argument("--each", type=int, default=15)
    a = p.parse_args()
    torch.set_num_threads(1)
    model, (_, cases) = Exported(a.model), read_cases(a.held, a.each)
    values = [value for case in cases for value in log_probabilities(a.url, model, case)]
    print(f"perplexity {math.exp(-sum(values) / len(values)):.4f} over {len(values)} tokens")
    prompts = [model.prompt_ids(case) for case in cases]
    gaps = []
    for case, prompt, ours in zip(cases, prompts, model.generate(prompts)):
        text = tk.as_text(tk.render({**case, "messages": case["messages"][:-1]})) + "<|assistant|>"
        theirs = [token["id"] for token in generate(a.url, text, max_new_tokens=300)["details"]["tokens"]]
        if theirs != ours:
            gaps.append(gap_where_they_part(model, prompt, ours, theirs))
    print(f"{len(cases) - len(gaps)} of {len(cases)} greedy answers are those of f32" +
          (f"; the others part where the two best logits are {', '.join(f'{gap:.4f}' for gap in sorted(gaps))} apart" if gaps else ""))


if __name__ == "__main__":
    main()
