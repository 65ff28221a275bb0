"""Uses the package instructor; prints {case: result} as JSON."""

import typing
import warnings

import anthropic
import instructor
import openai
import pydantic
from instructor import Mode

from agent_tasks import BASE_URL, LIMIT, Person, run

warnings.simplefilter("ignore", DeprecationWarning)
MODES = {Mode.TOOLS: "Person", Mode.TOOLS_STRICT: "Person", Mode.FUNCTIONS: "Person", Mode.JSON: "JSON", Mode.JSON_SCHEMA: "JSON",
         Mode.MD_JSON: "text"}


def client(mode):
    return instructor.from_openai(openai.OpenAI(base_url=BASE_URL, api_key="-", timeout=60, max_retries=0), mode=mode)


def of_anthropic(mode):
    return instructor.from_anthropic(
        anthropic.Anthropic(base_url=BASE_URL.removesuffix("/v1"), api_key="-", timeout=60, max_retries=0), mode=mode)


def ask(of, question, model=Person, **more):
    return of.create(model="tgi", max_tokens=LIMIT, response_model=model, messages=[{"role": "user", "content": question}], **more)


def modes():
    return {mode.name: ask(client(mode), f"Who is Ada, as {form}?", max_retries=0).model_dump() for mode, form in MODES.items()}


def modes_stream():
    out = {}
    for mode, form in MODES.items():
        form = "PartialPerson" if form == "Person" else form  # what the library calls the function then
        parts = list(client(mode).create_partial(
            model="tgi", max_tokens=LIMIT, response_model=Person, messages=[{"role": "user", "content": f"Who is Ada, as {form}?"}]))
        out[mode.name] = [parts[-1].model_dump(), len(parts) > 1]
    return out


def against_the_model():
    """What the script would say does not fit; what comes does."""
    return {mode.name: ask(client(mode), "Who is Ada, badly?", max_retries=0, temperature=0).model_dump()
            for mode in (Mode.TOOLS, Mode.TOOLS_STRICT, Mode.JSON_SCHEMA)}


def parallel_tools():
    people = ask(client(Mode.PARALLEL_TOOLS), "Who are both?", typing.Iterable[Person])
    return [person.model_dump() for person in people]


def iterable():
    """Objects of a list, each as soon as it is whole."""
    people = client(Mode.TOOLS).create_iterable(
        model="tgi", max_tokens=LIMIT, response_model=Person, messages=[{"role": "user", "content": "Who are they?"}])
    return [person.model_dump() for person in people]


def retry():
    """The first answer fails a check of the program's; the second one is asked for with the first call and its error."""
    class Elder(Person):
        """Somebody old."""

        @pydantic.model_validator(mode="after")
        def check(self):
            if self.age < 50:
                raise ValueError("too young for an Elder")
            return self

    return ask(client(Mode.TOOLS), "Who is an elder?", Elder, max_retries=1).model_dump()


def of_messages():
    return {mode.name: ask(of_anthropic(mode), f"Who is Ada, as {form}?", max_retries=0).model_dump()
            for mode, form in {Mode.ANTHROPIC_TOOLS: "Person", Mode.ANTHROPIC_JSON: "JSON"}.items()}


run([modes, modes_stream, against_the_model, parallel_tools, iterable, retry, of_messages])
