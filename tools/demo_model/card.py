"""Writes the model cards from what the other steps printed.

    python card.py --results results --model ../../models/demo --draft ../../models/demo-draft

The folder holds what was kept of each step: export.txt, export_draft.txt (export.py), evaluate.txt (evaluate.py with --draft and --transformers),
table.md and samples.txt (its --table and --samples), evaluate_f32.txt (the same for an export with --dtype f32), served_f32.txt, served_bf16.txt and
served_int8.txt (served.py), and remarks.md: what a reader of the samples and of the wrong answers saw, a list.
"""

import argparse
import json
import pathlib
import re

LINE_MAX = 260

CARD = """---
license: apache-2.0
language: en
---

# The demo model of Coxswain

A tiny chat model that comes with Coxswain, so that the first command answers with no network and every part of the API can be tried. Qwen3
architecture: 2.95 million parameters, 6 layers, hidden size 192, 6 heads of 32 with 2 key-value heads, tied embeddings, context 2,048, bfloat16; byte-level
BPE with 3,072 entries. Trained from scratch by `tools/demo_model` on {tokens} million tokens of conversations that our own generators write, on one CPU core
for {minutes} minutes (the wall clock, other work beside it); the weights are an average over the ends of its last three schedules. No text of others went in. Licence: Apache-2.0.

    scripts/serve.sh
    text-generation-launcher --model-id demo

It also loads in `transformers` (`AutoModelForCausalLM`, `AutoTokenizer`), where greedy answers of {same} of {asked} held-out prompts are token for token those of the
recipe's own code. `golden.json` has {goldens} greedy answers of `transformers` in float32 with the gap between the two best logits at each token.

## What it does

Greetings and who it is; questions about Coxswain; sums and differences of two numbers up to 999; counting; sorting and reversing short lists; days, months, colours,
capitals, opposites, plurals; short stories from given words; upper and lower case; name, age and city of a sentence as JSON; choosing one of one to three tools, filling
its arguments and answering from its result; remembering a fact for some turns; a name or "answer in upper case" from the system prompt. To all else it says that it is a tiny demo model.

## Measured

Held-out cases, greedy, judged by the stated rule (`tools/demo_model/evaluate.py`). A case is held out by its key: numbers, lists and sentences are new; for closed
sets such as capitals the wording is new for this item. "(chained turns)" are drawn from the whole mixture, a quarter of them with several turns.
Goals: 97 % on exact tasks, 90 % on open ones; {reached} of {rows} rows reach theirs{missed}.

{table}
| perplexity of the answers' tokens, {places} of them held out | |
|---|---|
| weights in f32, before rounding | {unrounded} |
| weights in bf16, activations in f32 | {rounded} |
| weights and activations in bf16 | {activations} |

Through Coxswain itself (`served.py`, fewer cases of each task, {served_places} tokens; the last column compares with the recipe's own code in float32):

| served with | perplexity | equal greedy answers |
|---|---|---|
| `--dtype float32` | {served_f32} |
| `--dtype bfloat16` | {served_bf16} |
| `--quantize int8` | {served_int8} |

The draft model `models/demo-draft` chooses the same token as this one at {agree} % of the places of its greedy answers; with four drafted tokens a round, {taken} are taken on average.

## Limits

{remarks}
- It knows what its generators knew, and nothing else. Do not use it for anything but trying the server.
- It speaks English only, in short sentences. Wordings far from those it was trained on end in "I am a tiny demo model" or in a wrong answer.
- Its context holds 2,048 tokens, but hardly any training conversation was longer than 300.
- The figures above are for cases that the same generators made. People ask differently.

## 100 answers at temperature 0.7

Held-out conversations of the mixture, the last question alone is shown, long lines are cut. {sound} of 100 end by themselves and use only words that occur in known answers or in the conversation;
the others are marked.

```
{samples}
```
"""

DRAFT_CARD = """---
license: apache-2.0
language: en
---

# A draft for the demo model

0.59 million parameters (Qwen3 architecture, 3 layers, hidden size 96, 3 heads of 32, 1 key-value head, tied embeddings, context 2,048, bfloat16), with the tokenizer and the
chat template of `models/demo`. Trained by `tools/demo_model` on {draft_tokens} million tokens of the same data, of which it learned what
`models/demo` makes of each place, on one CPU core for {draft_minutes} minutes (the wall clock, other work beside it). Licence: Apache-2.0.

It is for speculation: at {agree} % of the places of `models/demo`'s greedy answers on held-out prompts it chooses the same token; with four drafted tokens a round,
{taken} are taken on average. As a model of its own it answers worse than `models/demo` and has not been judged by task.
"""


def read_figures(results):
    """Everything that the cards quote, by name."""
    read = lambda name: (results / name).read_text()

    def find(pattern, name):
        found = re.search(pattern, read(name))
        if found is None:
            raise SystemExit(f"{results / name} has no line like: {pattern}")
        return found.groups()

    out = {}
    trained = r"after ([\d.]+) M tokens and (\d+) minutes"
    out["tokens"], out["minutes"] = find(trained, "export.txt")
    out["draft_tokens"], out["draft_minutes"] = find(trained, "export_draft.txt")
    out["same"], out["asked"] = find(r"transformers agrees on (\d+) of (\d+)", "evaluate.txt")
    out["reached"], out["rows"], missed = find(r"(\d+) of (\d+) tasks reach their goal(.*)", "evaluate.txt")
    out["missed"] = missed.replace("; not", "; these do not:")
    out["rounded"], out["activations"], out["places"] = find(r"perplexity of learned tokens: f32 ([\d.]+), bf16 activations ([\d.]+), over (\d+)", "evaluate.txt")
    out["sound"], = find(r"0\.7: (\d+)% sound", "evaluate.txt")
    out["agree"], out["taken"] = find(r"draft: ([\d.]+)% of .*?, ([\d.]+) of 4", "evaluate.txt")
    out["unrounded"], = find(r"perplexity of learned tokens: f32 ([\d.]+)", "evaluate_f32.txt")
    for name in ("f32", "bf16", "int8"):
        perplexity, out["served_places"] = find(r"perplexity ([\d.]+) over (\d+)", f"served_{name}.txt")
        same, asked = find(r"(\d+) of (\d+) greedy", f"served_{name}.txt")
        gaps = re.search(r"best logits are (.+) apart", read(f"served_{name}.txt"))
        parted = f"; the others part where the two best logits are at most {max(map(float, gaps[1].split(', '))):.3f} apart" if gaps else ""
        out[f"served_{name}"] = f"{perplexity} | {same} of {asked}{parted}"
    out["table"], out["remarks"] = read("table.md"), read("remarks.md").rstrip()
    cut = lambda line: line if len(line) <= LINE_MAX else line[:LINE_MAX - 3] + "..."
    out["samples"] = "\n".join(map(cut, read("samples.txt").rstrip().split("\n")))
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--results", type=pathlib.Path, required=True)
    p.add_argument("--model", type=pathlib.Path, required=True)
    p.add_argument("--draft", type=pathlib.Path, required=True)
    a = p.parse_args()
    figures = read_figures(a.results)
    figures["goldens"] = len(json.loads((a.model / "golden.json").read_text())["entries"])
    (a.model / "README.md").write_text(CARD.format(**figures))
    (a.draft / "README.md").write_text(DRAFT_CARD.format(**figures))


if __name__ == "__main__":
    main()
