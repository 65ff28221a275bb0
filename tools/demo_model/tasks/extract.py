"""Name, age and city of a sentence as JSON."""

import json

from words import CITIES, any_name

from .core import Task, same_json, splitting, turn
from .facts import CAPITALS

_ALL_CITIES = tuple(dict.fromkeys([*CAPITALS.values(), *CITIES]))
_SENTENCES = ("{n} is {a} years old and lives in {c}.", "My name is {n}, I am {a} and I live in {c}.", "{n}, {a}, lives in {c}.",
              "I am {n}. I am {a} years old and I live in {c}.", "{n} lives in {c} and is {a} years old.", "{n} from {c} is {a} years old.",
              "In {c} lives {n}, who is {a}.", "This is {n}, {a} years old, from {c}.", "{n} ({a}) lives in {c}.",
              "At the age of {a}, {n} moved to {c}.", "{n} is {a} and comes from {c}.")
_ASKS = ("Extract name, age and city as JSON: {s}", "Extract the name, age and city as JSON: {s}", "Give me name, age and city as JSON: {s}",
         "Return JSON with name, age and city: {s}", "{s} Extract name, age and city as JSON.", "{s} Give name, age and city as JSON.",
         "Write name, age and city as JSON: {s}", "Extract name, age and city from this sentence as JSON: {s}", "Name, age and city as JSON: {s}")


def any_city(rng) -> str:
    return rng.choice(_ALL_CITIES)


def _propose(rng):
    name, age, city = any_name(rng), rng.randrange(1, 100), any_city(rng)
    sentence = rng.choice(_SENTENCES).format(n=name, a=age, c=city)
    answer = json.dumps({"name": name, "age": age, "city": city})
    return f"{name} {age} {city}", turn(rng.choice(_ASKS).format(s=sentence), answer)


TASKS = {"extract": Task("exact", 5, splitting("extract", "exact", _propose), same_json)}
