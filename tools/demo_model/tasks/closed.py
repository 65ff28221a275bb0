"""Closed sets: items that are all learned, each under many wordings. A key is wording x item, so a held-out case is a wording
that was never seen with its item. The first wording of an item is the plain one, which people use most: it is never held out."""

from .core import Task, decorate, expand, is_held, same_text, turn


def _key(name: str, item: str, question: str, plain: bool) -> str:
    key = f"{name}|{item}|{question}"
    while plain and is_held(key):
        key += "|plain"
    return key


def closed_task(name: str, kind: str, weight: float, items, check=same_text, decorated: bool = True) -> Task:
    """items: (item, wordings, answer) or (item, wordings, answer, more wordings); a wording is a pattern for expand(). The second
    group of wordings gets a third of the training cases, however many they are. Every item keeps a wording to train on."""
    train, held = [], []
    for item, patterns, answer, *more in items:
        groups, plain = [], expand(patterns[0])[0]
        for group in (patterns, *more):
            questions = list(dict.fromkeys(q for pattern in group for q in expand(pattern)))
            keyed = [(_key(name, item, q, q == plain), q) for q in questions]
            groups.append([k for k in keyed if not is_held(k[0])])
            held += [(k, answer) for k in keyed if is_held(k[0])]
        if not all(groups):
            raise ValueError(f"{name}: no wording of {item} is left for training")
        train.append(([groups[0], *groups] if more else groups, answer))

    def generate(rng, split: str) -> dict:
        if split == "held":
            (key, question), answer = rng.choice(held)
        else:
            groups, answer = rng.choice(train)
            key, question = rng.choice(rng.choice(groups))
        question = decorate(rng, question) if decorated else question
        return {"task": name, "kind": kind, "messages": turn(question, answer), "key": key}

    generate.items = len(train)
    generate.wordings = sum(len({key for group in groups for key in group}) for groups, _ in train) + len(held)
    generate.held_wordings = len(held)
    return Task(kind, weight, generate, check)
