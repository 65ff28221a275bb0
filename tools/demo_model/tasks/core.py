"""What all tasks share: the record of a task, the rule that holds cases out, and the small grammar of wordings.

A generator proposes cases with a key; `splitting` repeats it until the key belongs to the split that is asked for.
"""

import json
import re
from dataclasses import dataclass
from itertools import product
from typing import Callable

from words import stable_hash

HELD_ONE_IN = 25
TOOL_CALL_MARKER = "<|tool_call|>"


@dataclass(frozen=True)
class Task:
    """kind: "exact" or "open". weight: share of the conversations. check's docstring is the rule that evaluate prints."""

    kind: str
    weight: float
    generate: Callable
    check: Callable


def is_held(key: str) -> bool:
    return stable_hash(key) % HELD_ONE_IN == 0


HARD_SHARE = 0.3


def splitting(task: str, kind: str, propose: Callable, hard: Callable = None) -> Callable:
    """generate(rng, split) from propose(rng) -> (key, messages) or (key, messages, extras). Of the cases to train on, HARD_SHARE comes
    from `hard`, which proposes what is rare and difficult; the held-out cases are as `propose` draws them."""

    def generate(rng, split: str) -> dict:
        held = split == "held"
        source = hard if hard and not held and rng.random() < HARD_SHARE else propose
        while True:
            key, messages, *extras = source(rng)
            key = task + "|" + key
            if is_held(key) == held:
                return {"task": task, "kind": kind, "messages": messages, "key": key, **(extras[0] if extras else {})}

    return generate


def turn(question: str, answer: str) -> list:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def expand(pattern: str) -> list:
    """All texts of a pattern: "{a|b} c{ d|}" has four. Choices do not nest."""
    parts = re.split(r"\{([^{}]*)\}", pattern)
    choices = [part.split("|") if i % 2 else [part] for i, part in enumerate(parts)]
    return [re.sub(r" +", " ", "".join(p)).strip() for p in product(*choices)]


_OPENERS = ("Hi, ", "Hello, ", "Please tell me: ", "Hello! ", "A question: ", "Hey, ", "Ok, ")


def decorate(rng, text: str) -> str:
    """The same question as people type it: a greeting in front, no capital, no question mark. Not part of a key."""
    r = rng.random()
    if r < 0.6:
        return text
    if r < 0.7:
        return rng.choice(_OPENERS) + (text if text[:2] == "I " else text[0].lower() + text[1:])
    if r < 0.8:
        return text[0].lower() + text[1:]
    if r < 0.9:
        return text.rstrip("?. ")
    return text.lower().rstrip("?. ")


def expected(case: dict) -> str:
    return case["messages"][-1].get("content") or ""


def same_text(case: dict, answer: str) -> bool:
    """the answer is the expected text"""
    return answer.strip() == expected(case)


def same_number(case: dict, answer: str) -> bool:
    """the number after the last "=" is right"""
    return "=" in answer and answer.rsplit("=", 1)[1].strip() == expected(case).rsplit("=", 1)[1].strip()


def same_json(case: dict, answer: str) -> bool:
    """the answer is JSON equal to the expected object"""
    return _load(answer) == json.loads(expected(case))


def same_call(case: dict, answer: str) -> bool:
    """the called tool and all its arguments are right; where no call is due, the text is the expected one"""
    calls = case["messages"][-1].get("tool_calls")
    if not calls:
        return same_text(case, answer)
    return _load(answer.strip().removeprefix(TOOL_CALL_MARKER)) == calls[0]["function"]


def _load(text: str):
    try:
        return json.loads(text)
    except ValueError:
        return None
