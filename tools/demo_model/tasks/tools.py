"""Tool calls: choose one of one to three tools and fill its arguments, answer from its result, and know when no tool fits."""

import json

from . import facts, numbers, social
from .core import Task, decorate, is_held, same_call, same_text, splitting, turn
from .toolbox import TOOLBOX, ask_text, offer

NO_TOOL = "I have no tool for that."
_CONCEPTS = tuple(TOOLBOX)
# Asked for in words that are near each other: never offered together, and none counts as missing while the other is there.
_NEAR = {frozenset(pair) for pair in (("search", "restaurant"), ("price", "person"), ("search", "person"), ("price", "shopping"), ("time", "timer"),
                                      ("heating", "light"), ("restaurant", "person"), ("search", "price"))}


def _offers(rng, concept: str, count: int):
    """`count` tools with `concept` among them, in any order, and what the right one is called."""
    others = []
    while len(others) < count - 1:
        other = rng.choice(_CONCEPTS)
        if other != concept and other not in others and frozenset((other, concept)) not in _NEAR:
            others.append(other)
    right, names = offer(rng, concept)
    tools = [offer(rng, other)[0] for other in others]
    tools.insert(rng.randrange(count), right)
    return tools, right["function"]["name"], names


def _ask(rng, concept: str, name: str, names: list):
    """A question for the tool and the call that answers it: the key, the values, and the two turns."""
    tool = TOOLBOX[concept]
    values = tool.values(rng)
    wording = rng.randrange(len(tool.asks))
    question = ask_text(wording, tool, values)
    if not any(isinstance(value, str) and value != value.lower() for value in values):
        question = decorate(rng, question)
    function = {"name": name, "arguments": dict(zip(names, values))}
    call = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}
    return f"{concept}|{wording}|{values}", values, [{"role": "user", "content": question}, call]


def _exchange(rng, concept: str, name: str, names: list):
    """A whole exchange: question, call, result, answer. Its call is learned from as well, so it is never a held-out one."""
    while True:
        key, values, messages = _ask(rng, concept, name, names)
        if not is_held("tool_call|" + key):
            break
    tool = TOOLBOX[concept]
    result = tool.result(rng, values)
    messages.append({"role": "tool", "name": name, "content": json.dumps(result)})
    messages.append({"role": "assistant", "content": tool.answer(values, result)})
    return f"{key}|{result}", messages


def _call(rng):
    concept = rng.choice(_CONCEPTS)
    tools, name, names = _offers(rng, concept, rng.choice((1, 2, 2, 3)))
    key, _, messages = _ask(rng, concept, name, names)
    r = rng.random()
    if r < 0.12:
        messages = social.TASKS["greetings"].generate(rng, "train")["messages"] + messages
    elif r < 0.24:
        before, exchanged = _exchange(rng, concept, name, names)
        if not is_held("tool_result|" + before):
            messages = exchanged + messages
    return key, messages, {"tools": tools}


def _result(rng):
    concept = rng.choice(_CONCEPTS)
    tools, name, names = _offers(rng, concept, rng.choice((1, 2, 2, 3)))
    key, messages = _exchange(rng, concept, name, names)
    return key, messages, {"tools": tools}


_PLAIN = (("greetings", social), ("capitals", facts), ("opposites", facts), ("days", facts), ("plurals", facts), ("add", numbers), ("count", numbers))


def _no_tool(rng):
    if rng.random() < 0.4:
        missing = rng.choice(_CONCEPTS)
        tool = TOOLBOX[missing]
        values = tool.values(rng)
        wording = rng.randrange(len(tool.asks))
        tools, _, _ = _offers(rng, missing, rng.choice((2, 2, 3)))
        tools = [t for t in tools if t["function"]["description"] != tool.description]
        return f"{missing}|{wording}|{values}", turn(ask_text(wording, tool, values), NO_TOOL), {"tools": tools}
    name, group = rng.choice(_PLAIN)
    case = group.TASKS[name].generate(rng, "train")
    while True:
        concept = rng.choice(_CONCEPTS)
        if name not in ("add", "count") or concept != "multiply":
            break
    tools, _, _ = _offers(rng, concept, rng.choice((1, 2, 2, 3)))
    return f"{case['key']}|{concept}", case["messages"], {"tools": tools}


def _no_tool_check(case: dict, answer: str) -> bool:
    """no tool is called and the answer is the expected text"""
    return same_text(case, answer)


TASKS = {
    "tool_call": Task("exact", 6, splitting("tool_call", "exact", _call), same_call),
    "tool_result": Task("exact", 3, splitting("tool_result", "exact", _result), same_text),
    "no_tool": Task("exact", 2.5, splitting("no_tool", "exact", _no_tool), _no_tool_check),
}
