"""What the clients of agent libraries share: where the server is, a function to call, a form to fill, and how cases are printed.

Usage of each of them: NAME_client.py URL [CASE...]
"""

import asyncio
import contextlib
import inspect
import json
import sys
import typing

import pydantic

BASE_URL = sys.argv[1] + "/v1"
LIMIT = 200  # tokens of an answer

ASKS_WEATHER = "What is the weather in Oslo?"
SKIES = {"Oslo": "cloudy", "Rome": "blue", "Bern": "grey", "Lima": "dry", "Kyiv": "pale", "Bonn": "clear"}
called = []


def get_weather(city: str) -> str:
    """Weather of a city

    Args:
        city: Name of the city
    """
    called.append(city)
    return json.dumps({"temperature": 4, "sky": SKIES[city]})


def calls():
    """The cities that were asked for since the last look."""
    cities = list(called)
    called.clear()
    return cities


class Person(pydantic.BaseModel):
    """Who somebody is."""
    name: typing.Literal["Ada", "Bob"]
    age: int = pydantic.Field(ge=0, le=150)


def run(cases):
    """Of cases that are coroutines all in one event loop, as connections belong to it."""
    wanted = sys.argv[2:]

    async def results():
        out = {}
        for case in cases:
            if not wanted or case.__name__ in wanted:
                result = case()
                out[case.__name__] = await result if inspect.isawaitable(result) else result
        return out

    with contextlib.redirect_stdout(sys.stderr):  # libraries print as they go
        found = asyncio.run(results())
    print(json.dumps(found))
