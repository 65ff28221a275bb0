"""Judges an exported model on held-out cases and prints a table; exits 1 where a task misses its goal.

    python evaluate.py --model ../../models/demo --held data/held.jsonl --samples samples.txt --draft ../../models/demo-draft

Goals: 97 % on exact tasks, 90 % on open ones. Each task's rule is printed beside its share. Also: perplexity of the learned tokens
with f32 and bf16 activations, 100 answers sampled at temperature 0.7, agreement with `transformers` (--transformers), and how many
of the draft's choices are those of the model (--draft).
"""

import argparse
import json
import math
import pathlib
import re
import sys

import torch
import torch.nn.functional as F

import tokenizer as tk
from decode import Exported
from tasks import TASKS

CHAINED = "(chained turns)"
GOALS = {"exact": 0.97, "open": 0.90}
WORD = re.compile(r"[^\W\d_]+")


def rule(check):
    return " ".join((check.__doc__ or "").split())


def judge(model, cases, show):
    """Rows (name, kind, rule, right, count) of the table, and some wrong answers by task. Chained cases have a row of their own."""
    answers = model.generate([model.prompt_ids(case) for case in cases])
    table, wrong = {}, {}
    for case, answer in zip(cases, answers):
        task, text = TASKS[case["task"]], model.text(answer)
        name, kind, stated = (CHAINED, "open", "the rule of its task") if case.get("mixed") else (case["task"], task.kind, rule(task.check))
        row = table.setdefault(name, [name, kind, stated, 0, 0])
        right = answer[-1] == tk.END and bool(task.check(case, text))
        row[3] += right
        row[4] += 1
        if not right and len(wrong.setdefault(name, [])) < show:
            last = case["messages"][-1]
            wrong[name].append((case["messages"][-2].get("content"), text, last.get("content") or str(last.get("tool_calls"))))
    return list(table.values()), wrong


def perplexity(model, cases):
    total, count = 0.0, 0
    for case in cases:
        ids, mine = model.conversation_ids(tk.render(case))
        places = torch.tensor([i for i in range(len(ids) - 1) if mine[i + 1]])
        loss = F.cross_entropy(model.logits(ids)[places].float(), torch.tensor(ids)[places + 1], reduction="sum")
        total, count = total + loss.item(), count + len(places)
    return math.exp(total / count), count


def words_of(cases):
    answers = (m for case in cases for m in case["messages"] if m["role"] == "assistant")
    return {w.lower() for m in answers for w in WORD.findall(json.dumps([m.get("content"), m.get("tool_calls")], ensure_ascii=False))}


def sample(model, cases, known, path):
    """Samples at 0.7. Sound: it ends by itself and every word is one of the known answers' or of the conversation's."""
    answers = model.generate([model.prompt_ids(c) for c in cases], temperature=0.7, seed=5)
    sound, lines = 0, []
    for case, answer in zip(cases, answers):
        text = model.text(answer)
        said = {w.lower() for m in case["messages"][:-1] for w in WORD.findall(json.dumps(m, ensure_ascii=False))}
        said |= {w.lower() for w in WORD.findall(json.dumps(case.get("tools", ""), ensure_ascii=False))}
        strange = [w for w in WORD.findall(text) if w.lower() not in known and w.lower() not in said]
        good = answer[-1] == tk.END and not strange
        sound += good
        question = str(case["messages"][-2].get("content"))[:300]
        lines.append(f"[{case['task']}] {question}\n  -> {text}{'' if good else '   UNSOUND ' + str(strange)}\n")
    path.write_text("\n".join(lines))
    return sound / len(cases)


def acceptance(model, draft, cases, ahead=4):
    """Share of the model's greedy tokens that the draft chooses too, and the mean number taken of `ahead` drafted ones."""
    same, count, taken, rounds = 0, 0, 0, 0
    for prompt, answer in zip([model.prompt_ids(c) for c in cases], model.generate([model.prompt_ids(c) for c in cases])):
        choices = draft.logits(prompt + answer)[len(prompt) - 1: -1].argmax(-1).tolist()
        agree = [a == b for a, b in zip(answer, choices)]
        same, count = same + sum(agree), count + len(agree)
        at = 0
        while at < len(agree):
            run = 0
            while run < ahead and at + run < len(agree) and agree[at + run]:
                run += 1
            taken, rounds, at = taken + run, rounds + 1, at + run + 1
    return same / count, taken / rounds


def compare_transformers(folder, model, cases):
    """Cases whose greedy ids `transformers` gives too, in f32."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    theirs, tokenizer = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), AutoTokenizer.from_pretrained(folder)
    same = 0
    for case in cases:
        tools = {"tools": case["tools"]} if case.get("tools") else {}
        prompt = tokenizer.apply_chat_template(
            case["messages"][:-1], add_generation_prompt=True, return_tensors="pt", return_dict=True, **tools)
        ids = prompt["input_ids"]
        out = theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=300, do_sample=False)[0, ids.shape[1]:].tolist()
        same += ids[0].tolist() == model.prompt_ids(case) and out == model.generate([ids[0].tolist()])[0]
    return same, len(cases)


def print_table(table, wrong):
    """Prints the table and returns the names of the tasks that miss their goal."""
    failed = [name for name, kind, _, right, count in table if right / count < GOALS[kind]]
    for name, kind, stated, right, count in table:
        goal = f"< {GOALS[kind]:.0%}" if name in failed else ""
        print(f"{name:16} {kind:5} {right:4}/{count:<4} {right / count:6.1%} {goal:6} {stated}")
    for name, items in wrong.items():
        for question, answer, expected in items:
            print(f"  wrong [{name}] {str(question)[-160:]!r}\n     got {answer!r}\n    want {expected!r}")
    return failed


def write_table(table, path):
    """The table in Markdown, for the model card."""
    lines = ["| task | kind | right | share | rule |", "|---|---|---|---|---|"]
    lines += [f"| {name} | {kind} | {right} of {count} | {right / count:.1%} | {stated} |" for name, kind, stated, right, count in table]
    path.write_text("\n".join(lines) + "\n")


def read_cases(path, each):
    """All held-out cases, and at most `each` of every task."""
    every, chosen, seen = [json.loads(line) for line in path.read_text().splitlines()], [], {}
    for case in every:
        name = CHAINED if case.get("mixed") else case["task"]
        seen[name] = seen.get(name, 0) + 1
        if seen[name] <= each:
            chosen.append(case)
    return every, chosen


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--model", type=pathlib.Path, required=True)
    p.add_argument("--held", type=pathlib.Path, required=True)
    p.add_argument("--each", type=int, default=10**9, help="at most so many cases a task")
    p.add_argument("--show", type=int, default=2, help="wrong answers to print for each task")
    p.add_argument("--samples", type=pathlib.Path, help="where to write 100 answers at temperature 0.7")
    p.add_argument("--table", type=pathlib.Path, help="where to write the table in Markdown")
    p.add_argument("--draft", type=pathlib.Path)
    p.add_argument("--transformers", action="store_true")
    p.add_argument("--threads", type=int, default=1)
    return p.parse_args()


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    every, cases = read_cases(a.held, a.each)
    model = Exported(a.model)
    table, wrong = judge(model, cases, a.show)
    failed = print_table(table, wrong)
    if a.table:
        write_table(table, a.table)
    some = cases[:: max(1, len(cases) // 400)]
    (exact, count), (rounded, _) = perplexity(model, some), perplexity(Exported(a.model, torch.bfloat16), some)
    print(f"perplexity of learned tokens: f32 {exact:.4f}, bf16 activations {rounded:.4f}, over {count} tokens")
    if a.samples:
        share = sample(model, [c for c in cases if c.get("mixed")][:100], words_of(every), a.samples)
        print(f"100 answers at temperature 0.7: {share:.0%} sound, in {a.samples}")
    if a.draft:
        agree, taken = acceptance(model, Exported(a.draft), some)
        print(f"draft: {agree:.1%} of the greedy tokens agree, {taken:.2f} of 4 drafted tokens are taken")
    if a.transformers:
        same, count = compare_transformers(a.model, model, some[:60])
        print(f"transformers agrees on {same} of {count}")
    print(f"{len(table) - len(failed)} of {len(table)} tasks reach their goal" + (f"; not {', '.join(failed)}" if failed else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
