"""Sorting, reversing and counting short lists, and rewriting in upper or lower case."""

from words import ADJECTIVES, ADVERBS, ANIMALS, COLOURS, FOODS, NOUNS, PREPOSITIONS, THINGS, VERBS

from .core import Task, same_text, splitting, turn

WORDS = sorted({*ANIMALS, *FOODS, *THINGS, *COLOURS})
_SORT_NUMBERS = ("Sort these numbers: {x}", "Sort {x}", "Sort the numbers {x}.", "Put these numbers in order: {x}", "Sort from small to large: {x}",
                 "Please sort: {x}", "Sort this list: {x}")
_SORT_DOWN = ("Sort these numbers from large to small: {x}", "Sort in descending order: {x}", "Sort from large to small: {x}")
_SORT_WORDS = ("Sort these words: {x}", "Sort alphabetically: {x}", "Sort {x}", "Put these words in order: {x}", "Please sort: {x}",
               "Sort this list: {x}", "Sort the words {x} by the alphabet.")
_REVERSE = ("Reverse this list: {x}", "Reverse: {x}", "Reverse the list {x}.", "Write this list backwards: {x}", "Please reverse: {x}",
            "Turn this list around: {x}")
_HOW_MANY = ("How many words are in this list: {x}", "Count the words: {x}", "How many items are here: {x}", "Count these items: {x}",
             "How many things are in this list: {x}")
_UPPER = ("Write in upper case: {x}", "Rewrite in upper case: {x}", "Write this in upper case: {x}", "Make this upper case: {x}",
          "Put this in capital letters: {x}", "upper case: {x}", "Change to upper case: {x}", "Please write in capitals: {x}")
_LOWER = ("Write in lower case: {x}", "Rewrite in lower case: {x}", "Write this in lower case: {x}", "Make this lower case: {x}",
          "lower case: {x}", "Put this in small letters: {x}")
_SHORT_NOUNS = [n for n in NOUNS if len(n) <= 6]


def _numbers(rng, count):
    top = rng.choice((10, 20, 100, 100, 1000))
    return rng.sample(range(top), count)


def _mixed_numbers(rng, count):
    """Of one to three digits in one list."""
    numbers = set()
    while len(numbers) < count:
        numbers.add(rng.randrange(rng.choice((10, 100, 1000, 1000))))
    return rng.sample(sorted(numbers), count)


def _sort_numbers(rng, draw=_numbers):
    numbers = draw(rng, rng.randrange(3, 7))
    down = rng.random() < 0.3
    text = ", ".join(map(str, numbers))
    answer = ", ".join(map(str, sorted(numbers, reverse=down)))
    return ("down " if down else "up ") + text, turn(rng.choice(_SORT_DOWN if down else _SORT_NUMBERS).format(x=text), answer)


def _words(rng, count):
    """Words with different first letters."""
    chosen, letters = [], set()
    while len(chosen) < count:
        word = rng.choice(WORDS)
        if word[0] not in letters:
            letters.add(word[0])
            chosen.append(word)
    return chosen


def _sort_words(rng):
    words = _words(rng, rng.randrange(3, 6))
    text = ", ".join(words)
    return text, turn(rng.choice(_SORT_WORDS).format(x=text), ", ".join(sorted(words)))


def _reverse(rng):
    count = rng.randrange(3, 7)
    items = list(map(str, _numbers(rng, count))) if rng.random() < 0.4 else rng.sample(WORDS, count)
    text = ", ".join(items)
    return text, turn(rng.choice(_REVERSE).format(x=text), ", ".join(reversed(items)))


def _how_many(rng):
    count = rng.randrange(2, 9)
    items = rng.sample(WORDS, count)
    text = ", ".join(items)
    answer = ", ".join(f"{i + 1} {word}" for i, word in enumerate(items))
    return text, turn(rng.choice(_HOW_MANY).format(x=text), f"{answer}. There are {count}.")


def phrase(rng) -> str:
    """A few lower-case words, mostly a small sentence."""
    r, c = rng.random(), rng.choice
    if r < 0.2:
        return " ".join(rng.sample(_SHORT_NOUNS, rng.randrange(1, 5)))
    if r < 0.3:
        return c(("hello", "hello world", "good morning", "good night", "thank you", "i am here", "this is a test", "hello coxswain",
                  "coxswain is a server", "this is a demo model", "i am a demo", "please help me", "what is this", "my name is "
                  + c(_SHORT_NOUNS), "i like " + c(_SHORT_NOUNS) + " and " + c(_SHORT_NOUNS), "we have a " + c(_SHORT_NOUNS)))
    text = f"the {c(ADJECTIVES)} {c(_SHORT_NOUNS)} {c(VERBS)}"
    if r < 0.7:
        text += f" {c(PREPOSITIONS)} the {c(_SHORT_NOUNS)}"
    elif r < 0.9:
        text += " " + c(ADVERBS)
    return text


def _case(rng):
    text = phrase(rng)
    if rng.random() < 0.25:
        return "lower " + text, turn(rng.choice(_LOWER).format(x=text.upper()), text)
    shown = text[0].upper() + text[1:] + "." if rng.random() < 0.25 else text
    return "upper " + text, turn(rng.choice(_UPPER).format(x=shown), shown.upper())


TASKS = {
    "sort_numbers": Task("exact", 4, splitting("sort_numbers", "exact", _sort_numbers, lambda rng: _sort_numbers(rng, _mixed_numbers)), same_text),
    "sort_words": Task("exact", 4, splitting("sort_words", "exact", _sort_words), same_text),
    "reverse": Task("exact", 3, splitting("reverse", "exact", _reverse), same_text),
    "how_many": Task("exact", 2, splitting("how_many", "exact", _how_many), same_text),
    "upper_lower": Task("exact", 5, splitting("upper_lower", "exact", _case), same_text),
}
