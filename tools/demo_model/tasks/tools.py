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


def _case(rng):
    concept = rng.choice(_CONCEPTS)
    tool = TOOLBOX[concept]
    values = tool.values(rng)
    wording = rng.randrange(len(tool.asks))
    tools, name, names = _offers(rng, concept, rng.choice((1, 2, 2, 3)))
    question = ask_text(wording, tool, values)
    if not any(isinstance(value, str) and value != value.lower() for value in values):
        question = decorate(rng, question)
    call = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": name, "arguments": dict(zip(names, values))}}]}
    return f"{concept}|{wording}|{values}", tool, values, tools, [{"role": "user", "content": question}, call]


def _call(rng):
    key, _, _, tools, messages = _case(rng)
    if rng.random() < 0.15:
        messages = social.TASKS["greetings"].generate(rng, "train")["messages"] + messages
    return key, messages, {"tools": tools}


def _result(rng):
    key, tool, values, tools, messages = _case(rng)
    while is_held("tool_call|" + key):  # The call in this conversation is learned from as well.
        key, tool, values, tools, messages = _case(rng)
    result = tool.result(rng, values)
    name = messages[1]["tool_calls"][0]["function"]["name"]
    messages += [{"role": "tool", "name": name, "content": json.dumps(result)}, {"role": "assistant", "content": tool.answer(values, result)}]
    return f"{key}|{result}", messages, {"tools": tools}


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
