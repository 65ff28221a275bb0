"""System prompts: a name for the assistant, and answers in upper case."""

from words import any_name

from . import facts, numbers, social
from .core import Task, decorate, expand, same_text, splitting, turn

_NAMED = ("Your name is {n}.", "You are {n}.", "You are {n}, a helpful assistant.", "Your name is {n}. You are a helpful assistant.",
          "You are an assistant called {n}.",
          "You are called {n}.", "Your name is {n}. Be polite.")
_WHO = tuple(question for pattern in social.WHO for question in expand(pattern))
_HELLO = ("Hello", "Hello!", "Hi", "Hi!", "Hey", "Good day", "Hello there", "Hi there!", "Hello.")
_UPPER = ("Answer in upper case.", "Always answer in upper case.", "Write all answers in upper case.", "Answer in capital letters.",
          "Use upper case only.",
          "You are a helpful assistant. Answer in upper case.", "Reply in upper case.")
_UPPER_INNER = (("days", facts), ("months", facts), ("colours", facts), ("opposites", facts), ("number_words", facts), ("count", numbers),
                ("greetings", social))
_NORMAL_INNER = (("days", facts), ("capitals", facts), ("add", numbers), ("plurals", facts), ("colours", facts))


def _named(rng):
    name, system = any_name(rng), rng.choice(_NAMED)
    r = rng.random()
    if r < 0.6:
        question = rng.choice(_WHO)
        key, messages = f"{name}|{question}", turn(decorate(rng, question), f"I am {name}, a tiny demo model that comes with Coxswain.")
    elif r < 0.8:
        question = rng.choice(_HELLO)
        key, messages = f"{name}|{question}", turn(question, f"Hello! I am {name}. How can I help?")
    else:
        task, group = rng.choice(_NORMAL_INNER)
        inner = group.TASKS[task].generate(rng, "train")
        key, messages = f"{name}|{inner['key']}", inner["messages"]
    return key, [{"role": "system", "content": system.format(n=name)}, *messages]


def _upper(rng):
    task, group = rng.choice(_UPPER_INNER)
    inner = group.TASKS[task].generate(rng, "train")
    messages = [dict(message) for message in inner["messages"]]
    messages[-1]["content"] = messages[-1]["content"].upper()
    return inner["key"], [{"role": "system", "content": rng.choice(_UPPER)}, *messages]


TASKS = {
    "system_name": Task("open", 2, splitting("system_name", "open", _named), same_text),
    "system_upper": Task("open", 2, splitting("system_upper", "open", _upper), same_text),
}
