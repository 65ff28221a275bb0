"""Conversations that the demo model learns from, and the rules that judge its answers.

    from tasks import TASKS, draw
    case = draw(random.Random(1), "train")

A case has task, kind ("exact" or "open"), messages, key and perhaps tools (OpenAI function tools). Messages end with the assistant's
answer; every assistant turn in them is an answer to learn. A tool call is
{"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": ..., "arguments": {...}}}]}
with arguments as an object; its answer is judged as the JSON object {"name": ..., "arguments": ...}, with or without the marker
token in front. Results are {"role": "tool", "name": ..., "content": text}.

A case is held out iff stable_hash(key) % 25 == 0, whatever it is about; the split "train" never emits such a key, not even as one
turn of a longer conversation.
"""

import importlib

from .core import HELD_ONE_IN, Task, is_held

_GROUPS = ("numbers", "lists", "facts", "faq", "social", "stories", "extract", "tools", "memory", "fallback", "system")
# Tasks whose cases are one question and one answer, which may stand in any conversation.
_CHAINABLE = ("add", "subtract", "count", "sort_numbers", "sort_words", "reverse", "how_many", "upper_lower", "days", "months", "colours",
              "capitals", "opposites", "plurals", "number_words", "faq", "greetings", "extract", "fallback", "story")
_CHAIN_SHARE = 0.25
_LONG_CHAIN_SHARE = 0.004
_NEUTRAL_SYSTEM_SHARE = 0.08
_NEUTRAL_SYSTEMS = ("You are a helpful assistant.", "You are a helpful assistant", "You are an assistant.", "You are a friendly assistant.",
                    "Answer briefly.", "You are a helpful AI assistant. Be brief.", "Be polite.", "Answer the question.", "You are a pirate.",
                    "You are an expert.", "Keep answers short.", "You help people.",
                    "You are a friendly teacher.", "You are a chatbot.", "You are an honest and helpful assistant. Do not make things up.",
                    "Think first.")

TASKS: dict[str, Task] = {}
for _group in _GROUPS:
    TASKS.update(importlib.import_module(f".{_group}", __name__).TASKS)


def _running_sums(names):
    total, sums = 0.0, []
    for name in names:
        total += TASKS[name].weight
        sums.append(total)
    return list(names), sums


_ALL = _running_sums(TASKS)
_CHAIN = _running_sums([name for name in _CHAINABLE if name in TASKS])


def _pick(rng, table) -> Task:
    names, sums = table
    return TASKS[rng.choices(names, cum_weights=sums)[0]]


def draw(rng, split: str) -> dict:
    """One case of the mixture. split "held": the answer that counts is the last one; earlier turns are held-out cases too."""
    where = rng.random()
    if where >= _CHAIN_SHARE:
        case = _pick(rng, _ALL).generate(rng, split)
    else:
        length = rng.randrange(8, 21) if where < _LONG_CHAIN_SHARE else rng.choice((2, 2, 2, 3, 3, 4))
        parts = [_pick(rng, _CHAIN).generate(rng, split) for _ in range(length)]
        case = dict(parts[-1])
        case["messages"] = [message for part in parts for message in part["messages"]]
        case["turns"] = len(parts)
    messages = case["messages"]
    if messages[0]["role"] != "system" and rng.random() < _NEUTRAL_SYSTEM_SHARE:
        case["messages"] = [{"role": "system", "content": rng.choice(_NEUTRAL_SYSTEMS)}, *messages]
    return case


__all__ = ["HELD_ONE_IN", "TASKS", "Task", "draw", "is_held"]
