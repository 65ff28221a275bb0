"""Addition, subtraction and counting.

Sums show their columns from the right. Each column is one look-up: the two digits, and 1 if the column before reached ten (in a
subtraction: if it had to borrow, which shows as a first number above nine).
"""

from .core import Task, same_number, same_text, splitting, turn

_ADD = ("What is {a} + {b}?", "{a} + {b}", "{a}+{b}", "{a} + {b} =", "Add {a} and {b}.", "What is {a} plus {b}?", "Calculate {a} + {b}.",
        "How much is {a} + {b}?", "what is {a}+{b}", "What is the sum of {a} and {b}?", "{a} plus {b}", "{a}+{b}=?", "Compute {a} + {b}")
_SUBTRACT = ("What is {a} - {b}?", "{a} - {b}", "{a}-{b}", "{a} - {b} =", "Subtract {b} from {a}.", "What is {a} minus {b}?",
             "Calculate {a} - {b}.", "How much is {a} - {b}?", "what is {a}-{b}", "Take {b} from {a}.", "{a} minus {b}", "{a}-{b}=?",
             "Compute {a} - {b}")


def _columns(a: int, b: int) -> int:
    return max(len(str(a)), len(str(b)))


def add_text(a: int, b: int) -> str:
    if a < 10 and b < 10:
        return f"{a} + {b} = {a + b}"
    steps, carry, x, y = [], 0, a, b
    for _ in range(_columns(a, b)):
        total = x % 10 + y % 10 + carry
        steps.append(f"{x % 10}+{y % 10}" + ("+1" if carry else "") + f"={total}")
        carry, x, y = total // 10, x // 10, y // 10
    return f"{a} + {b}: " + ", ".join(steps) + f". {a} + {b} = {a + b}"


def subtract_text(a: int, b: int) -> str:
    if a < b:
        return f"{a} is less than {b}. {subtract_text(b, a)}. {a} - {b} = {a - b}"
    if a < 10:
        return f"{a} - {b} = {a - b}"
    steps, borrow, x, y = [], 0, a, b
    for _ in range(_columns(a, b)):
        top, low = x % 10, y % 10
        short = top < low + borrow
        top += 10 if short else 0
        steps.append(f"{top}-{low}" + ("-1" if borrow else "") + f"={top - low - borrow}")
        borrow, x, y = int(short), x // 10, y // 10
    return f"{a} - {b}: " + ", ".join(steps) + f". {a} - {b} = {a - b}"


def _operand(rng) -> int:
    r = rng.random()
    return rng.randrange(10) if r < 0.12 else rng.randrange(10, 100) if r < 0.4 else rng.randrange(100, 1000)


def _pair(rng):
    return (rng.randrange(10), rng.randrange(10)) if rng.random() < 0.08 else (_operand(rng), _operand(rng))


def _near_pair(rng):
    """Two numbers of which it is not plain which one is less."""
    a = _operand(rng)
    return a, min(999, max(0, a + rng.randrange(-30, 31)))


def _propose(patterns, sign, text, pair=_pair):
    def propose(rng):
        a, b = pair(rng)
        if sign == "-" and a < b and rng.random() < 0.7:
            a, b = b, a
        pattern = rng.randrange(len(patterns))
        # The hundred sums of one digit are a closed set: there the wording is part of the key.
        key = f"{pattern}|{a}{sign}{b}" if a < 10 and b < 10 else f"{a}{sign}{b}"
        return key, turn(patterns[pattern].format(a=a, b=b), text(a, b))

    return propose


_COUNT_UP = ("Count from {a} to {b}.", "Count from {a} to {b}", "Please count from {a} to {b}.", "count from {a} up to {b}",
             "Can you count from {a} to {b}?")
_COUNT_TO = ("Count to {b}.", "Can you count to {b}?", "Please count to {b}.")
_COUNT_DOWN = ("Count down from {a} to {b}.", "Count backwards from {a} to {b}.", "count down from {a} to {b}", "Please count down from {a} to {b}.")
_COUNT_STEP = ("Count from {a} to {b} in steps of {s}.", "Count from {a} to {b} by {s}.", "Please count from {a} to {b} in steps of {s}.")


def _count(rng):
    length = rng.randrange(2, 13)
    r = rng.random()
    if r < 0.2:
        a, b, step, pattern = 1, rng.randrange(2, 21), 1, rng.randrange(len(_COUNT_TO))
        text, key = _COUNT_TO[pattern], f"{pattern}|to {b}"
    elif r < 0.55:
        a = rng.randrange(0, 20) if rng.random() < 0.5 else rng.randrange(0, 110)
        b, step = a + length, 1
        text, key = rng.choice(_COUNT_UP), f"{a} {b}"
    elif r < 0.8:
        b = rng.randrange(0, 10) if rng.random() < 0.5 else rng.randrange(0, 110)
        a, step = b + length, -1
        text, key = rng.choice(_COUNT_DOWN), f"{a} {b}"
    else:
        step = rng.choice((2, 3, 5, 10))
        a = rng.randrange(0, 31) if step < 5 else step * rng.randrange(0, 7)
        b = a + step * min(length, 9)
        text, key = rng.choice(_COUNT_STEP), f"{a} {b} {step}"
    numbers = range(a, b + (1 if step > 0 else -1), step)
    return key, turn(text.format(a=a, b=b, s=step), ", ".join(map(str, numbers)))


TASKS = {
    "add": Task("exact", 12, splitting("add", "exact", _propose(_ADD, "+", add_text)), same_number),
    "subtract": Task("exact", 10, splitting("subtract", "exact", _propose(_SUBTRACT, "-", subtract_text), _propose(_SUBTRACT, "-", subtract_text, _near_pair)), same_number),
    "count": Task("exact", 3, splitting("count", "exact", _count), same_text),
}
