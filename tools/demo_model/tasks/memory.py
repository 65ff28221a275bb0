"""Remembering what the user said two to five turns before."""

from words import COLOURS, JOBS, MEALS, PET_NAMES, PETS, SPORTS, any_name, article, made_up_name

from . import facts, lists, numbers, social
from .core import Task, decorate, is_held, same_text, splitting, turn
from .extract import any_city
from .lists import WORDS

ACK = "Ok, I will remember that."
NOT_TOLD = "You have not told me that."


def _pet(rng):
    return rng.choice(PETS), rng.choice(PET_NAMES) if rng.random() < 0.7 else made_up_name(rng)


# kind: (values, statements, acknowledgement, questions, answer)
_FACTS = {
    "name": (lambda r: (any_name(r),), ("My name is {0}.", "I am {0}.", "Call me {0}.", "Hi, I am {0}.", "Hello, my name is {0}.", "I'm {0}.",
                                        "Please call me {0}."),
             "Nice to meet you, {0}.", ("What is my name?", "Who am I?", "Do you know my name?", "Do you remember my name?", "What's my name?",
                                        "Tell me my name.",
                                        "Say my name."), "Your name is {0}."),
    "colour": (lambda r: (r.choice(COLOURS),), ("My favourite colour is {0}.", "I like the colour {0} most.", "My favorite color is {0}.",
                                                "I love the colour {0}."), ACK,
               ("What is my favourite colour?", "Which colour do I like?", "What is my favorite color?", "Do you remember my favourite colour?",
                "Tell me my favourite colour."),
               "Your favourite colour is {0}."),
    "pet": (_pet, ("My {0} is called {1}.", "I have a {0} called {1}.", "My {0}'s name is {1}.", "The name of my {0} is {1}.",
                   "I have a {0} named {1}."), ACK,
            ("What is the name of my {0}?", "What is my {0} called?", "What is my {0}'s name?", "Do you remember the name of my {0}?"),
            "Your {0} is called {1}."),
    "city": (lambda r: (any_city(r),), ("I live in {0}.", "My home is in {0}.", "I come from {0}.", "My city is {0}.", "I am from {0}."), ACK,
             ("Where do I live?", "Which city do I live in?", "What is my city?", "Do you remember where I live?", "Where is my home?"),
             "You live in {0}."),
    "food": (lambda r: (r.choice(MEALS),), ("My favourite food is {0}.", "I like to eat {0} most.", "I love {0}.", "My favorite food is {0}."), ACK,
             ("What is my favourite food?", "What do I like to eat?", "What is my favorite food?", "Do you remember my favourite food?"),
             "Your favourite food is {0}."),
    "age": (lambda r: (r.randrange(5, 100),), ("I am {0} years old.", "My age is {0}.", "I'm {0} years old."), ACK,
            ("How old am I?", "What is my age?", "Do you remember my age?", "Do you remember how old I am?"), "You are {0} years old."),
    "number": (lambda r: (r.randrange(2, 1000),), ("My lucky number is {0}.", "My number is {0}.", "Remember the number {0}.", "The number is {0}."),
               ACK,
               ("What is my lucky number?", "What is my number?", "What is the number?", "Do you remember the number?", "Which number was it?"),
               "The number is {0}."),
    "job": (lambda r: (article(r.choice(JOBS)),), ("I work as {0}.", "I am {0}.", "My job is to be {0}.", "I'm {0}."), ACK,
            ("What is my job?", "What do I work as?", "Do you remember my job?", "What do I do for work?"), "You are {0}."),
    "sport": (lambda r: (r.choice(SPORTS),), ("My favourite sport is {0}.", "My favorite sport is {0}.", "The sport I like most is {0}."), ACK,
              ("What is my favourite sport?", "Which sport do I like?", "Do you remember my favourite sport?", "What is my favorite sport?"),
              "Your favourite sport is {0}."),
    "word": (lambda r: (r.choice(WORDS),), ("The code word is {0}.", "The secret word is {0}.", "Remember the word {0}.", "Remember this word: {0}"),
             ACK,
             ("What is the code word?", "What is the secret word?", "What was the word?", "Which word was it?", "Do you remember the word?"),
             "The word is {0}."),
}
_KINDS = tuple(_FACTS)
_BETWEEN = tuple((group.TASKS[name].generate, weight) for name, group, weight in
                 (("days", facts, 2), ("colours", facts, 2), ("opposites", facts, 2), ("plurals", facts, 2), ("capitals", facts, 2),
                  ("greetings", social, 3),
                  ("add", numbers, 2), ("reverse", lists, 1), ("count", numbers, 1)))
_GENERATORS = tuple(generate for generate, _ in _BETWEEN)
_WEIGHTS = [weight for _, weight in _BETWEEN]


def _between(rng, count: int) -> list:
    """Other small turns. They are always drawn from the training split, so they cannot leak a held-out case."""
    messages = []
    for generate in rng.choices(_GENERATORS, _WEIGHTS, k=count):
        messages += generate(rng, "train")["messages"]
    return messages


def _tell(rng, kind: str):
    values, statements, ack, _, _ = _FACTS[kind]
    drawn = values(rng)
    index = rng.randrange(len(statements))
    return drawn, index, turn(statements[index].format(*drawn), ack.format(*drawn))


def _ask(rng, kind: str, drawn):
    _, _, _, questions, answer = _FACTS[kind]
    index = rng.randrange(len(questions))
    return index, turn(decorate(rng, questions[index].format(*drawn)), answer.format(*drawn))


def _propose(rng):
    if rng.random() < 0.1:
        return _not_told(rng)
    kinds = rng.sample(_KINDS, rng.choice((1, 1, 1, 2, 2, 3)))
    kind = rng.choice(kinds)
    told, keys, messages = {}, {}, []
    for each in kinds:
        told[each], keys[each], spoken = _tell(rng, each)
        messages += spoken
        # The fact that is asked for lies at most five turns back.
        if rng.random() < 0.3:
            messages += _between(rng, 1)
    room = 4 - (len(messages) // 2 - 1)
    messages += _between(rng, rng.randrange(0 if len(kinds) > 1 else 1, max(room, 1) + 1))
    index, spoken = _ask(rng, kind, told[kind])
    if len(kinds) > 1 and rng.random() < 0.15:
        other = kinds[0] if kinds[0] != kind else kinds[1]
        asked, extra = _ask(rng, other, told[other])
        if not is_held(_key(other, told, keys, asked)):
            messages += extra
    return _key(kind, told, keys, index).split("|", 1)[1], messages + spoken


def _key(kind: str, told: dict, statements: dict, question: int) -> str:
    return f"memory|{kind}|{told[kind]}|{statements[kind]}|{question}"


def _not_told(rng):
    kind = rng.choice(_KINDS)
    messages = []
    if rng.random() < 0.4:
        other = rng.choice([k for k in _KINDS if k not in (kind, "name", "job")])
        messages += _tell(rng, other)[2]
    messages += _between(rng, rng.randrange(0, 3))
    index, spoken = _ask(rng, kind, _FACTS[kind][0](rng))
    spoken[1]["content"] = NOT_TOLD
    return f"not told|{kind}|{index}|{messages[0]['content'] if messages else ''}", messages + spoken


TASKS = {"memory": Task("exact", 9, splitting("memory", "exact", _propose), same_text)}
