"""Uses the package openai for /v1/responses; prints {case: result} as JSON."""

import asyncio
import json
import socket
import sys

import openai
import pydantic
from openai.types.responses import Response

URL = sys.argv[1]
MESSAGES = json.loads(sys.argv[3])
TOOLS = json.loads(sys.argv[4])
FUNCTIONS = [{"type": "function", "strict": False, **tool["function"]} for tool in TOOLS["tools"]]
ASKED = {"model": "tgi", "input": MESSAGES[0]["content"], "max_output_tokens": 20, "temperature": 0}

client = openai.OpenAI(base_url=URL + "/v1", api_key="-", timeout=60, max_retries=0)
HTTP = sys.modules[openai.DefaultHttpxClient.__mro__[1].__module__]  # the package that it uses, whatever its name
misfits = []


class Person(pydantic.BaseModel):
    name: str
    age: int


def read(answer):
    try:
        Response.model_validate(json.loads(json.dumps(answer.to_dict())))
    except pydantic.ValidationError as error:
        misfits.append(str(error))
    usage = answer.usage
    assert answer.id.startswith("resp_") and usage.input_tokens_details.cached_tokens < usage.input_tokens
    return {"text": answer.output_text, "types": [item.type for item in answer.output], "status": answer.status, "model": answer.model,
            "reason": answer.incomplete_details and answer.incomplete_details.reason, "usage": [usage.input_tokens, usage.output_tokens]}


def create():
    return read(client.responses.create(**ASKED))


def create_with_items():
    items = [{"role": m["role"], "content": [{"type": "input_text", "text": m["content"]}]} for m in MESSAGES]
    return read(client.responses.create(**{**ASKED, "input": items}))


def create_with_instructions():
    return read(client.responses.create(**ASKED, instructions="You are brief."))


def create_stream():
    events = list(client.responses.create(**ASKED, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    return {"types": [event.type for event in events if not event.type.endswith(".delta")],
            "text": "".join(event.delta for event in events if event.type == "response.output_text.delta"), "last": read(events[-1].response)}


def stream():
    with client.responses.stream(**ASKED) as events:
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    return text


def from_async():
    async def both():
        async with openai.AsyncOpenAI(base_url=URL + "/v1", api_key="-", timeout=60, max_retries=0) as other:
            whole = await other.responses.create(**ASKED)
            events = [event async for event in await other.responses.create(**ASKED, stream=True)]
            return [read(whole), read(events[-1].response)]
    return asyncio.run(both())


def logprobs():
    answer = client.responses.create(**ASKED, include=["message.output_text.logprobs"], top_logprobs=2)
    part = answer.output[0].content[0]
    return {"is_text": "".join(one.token for one in part.logprobs) == part.text, "tops": sorted({len(one.top_logprobs) for one in part.logprobs})}


def kept():
    first = client.responses.create(**ASKED)
    again = client.responses.retrieve(first.id)
    second = client.responses.create(**{**ASKED, "input": "And then?"}, previous_response_id=first.id)
    whole = [*MESSAGES, {"role": "assistant", "content": first.output_text}, {"role": "user", "content": "And then?"}]
    by_hand = client.responses.create(**{**ASKED, "input": whole})
    client.responses.delete(first.id)
    return {"again": again == first, "goes_on": second.output_text == by_hand.output_text and second.usage.input_tokens == by_hand.usage.input_tokens,
            "gone": error_of(lambda: client.responses.retrieve(first.id)),
            "gone_for_others": error_of(lambda: client.responses.create(**ASKED, previous_response_id=first.id))}


def items_of(page):
    return [[item.role, "".join(part.text for part in item.content)] for item in page]


def input_items():
    first = client.responses.create(**ASKED)
    second = client.responses.create(**{**ASKED, "input": "And then?"}, previous_response_id=first.id)
    whole = [[m["role"], m["content"]] for m in MESSAGES] + [["assistant", first.output_text], ["user", "And then?"]]
    pages = client.responses.input_items.list(second.id, limit=1, order="asc")
    return {"all": items_of(pages) == whole,  # as many pages as items
            "newest_first": items_of(client.responses.input_items.list(second.id)) == whole[::-1],
            "of_first": items_of(client.responses.input_items.list(first.id)) == whole[:1],
            "wrong": error_of(lambda: client.responses.input_items.list(second.id, limit=101)),
            "unknown": error_of(lambda: client.responses.input_items.list("resp_none"))}


def cancel():
    """Of one that is held to a long text, whose client has read its first event only: it waits for room between them."""
    long_text = {"type": "object", "properties": {"text": {"type": "string", "minLength": 3000}}, "required": ["text"],
                 "additionalProperties": False}
    little_room = openai.OpenAI(base_url=client.base_url, api_key=client.api_key, max_retries=0, http_client=openai.DefaultHttpxClient(
        transport=HTTP.HTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)])))
    events = iter(little_room.responses.create(
        **{**ASKED, "max_output_tokens": 1200}, stream=True, top_logprobs=20, include=["message.output_text.logprobs"],
        text={"format": {"type": "json_schema", "name": "long", "strict": True, "schema": long_text}}))
    running = next(events).response
    cancelled = client.responses.cancel(running.id)
    last = list(events)[-1]
    ended = client.responses.create(**ASKED)
    return {"status": cancelled.status, "same": cancelled.id == running.id, "last": [last.type, last.response.status],
            "ended": error_of(lambda: client.responses.cancel(ended.id)), "unknown": error_of(lambda: client.responses.cancel("resp_none")),
            "not_kept": error_of(lambda: client.responses.retrieve(running.id))}


def parse():
    """The model is held to the form."""
    answer = client.responses.parse(model="tgi", input=MESSAGES[0]["content"], temperature=0, text_format=Person)
    return isinstance(answer.output_parsed, Person)


def calls_of(answer):
    return [[item.name, json.loads(item.arguments)] for item in answer.output if item.type == "function_call"]


def tool_loop():
    asked = {"model": "tgi", "tools": FUNCTIONS, "temperature": 0}
    first = client.responses.create(**asked, input=TOOLS["messages"])
    result = {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": TOOLS["result"]}
    kept_here = client.responses.create(**asked, input=[result], previous_response_id=first.id)
    by_hand = client.responses.create(**asked, input=[*TOOLS["messages"], *(item.to_dict() for item in first.output), result])
    return {"calls": calls_of(first), "text": first.output_text, "then": kept_here.output_text, "same": by_hand.output_text == kept_here.output_text}


def tool_stream():
    with client.responses.stream(model="tgi", tools=FUNCTIONS, temperature=0, input=TOOLS["messages"]) as events:
        deltas = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
        final = events.get_final_response()
    return {"calls": calls_of(final), "joined": json.loads("".join(deltas)), "several": len(deltas) > 1}


def tool_choices():
    asked = {"model": "tgi", "tools": FUNCTIONS, "temperature": 0, "input": "Hello!"}
    named = {"type": "function", "name": "set_timer"}
    return {choice if isinstance(choice, str) else "named": [name for name, _ in calls_of(client.responses.create(**asked, tool_choice=choice))]
            for choice in ("auto", "none", "required", named)}


def error_of(call):
    try:
        call()
    except openai.APIStatusError as error:
        return [type(error).__name__, error.status_code, error.code, error.param]
    return None


def errors():
    return {"invalid": error_of(lambda: client.responses.create(**{**ASKED, "max_output_tokens": 0})),
            "of_stream": error_of(lambda: client.responses.create(**{**ASKED, "max_output_tokens": 0}, stream=True)),
            "background": error_of(lambda: client.responses.create(**ASKED, background=True)),
            "built_in": error_of(lambda: client.responses.create(**ASKED, tools=[{"type": "web_search"}])),
            "too_long": error_of(lambda: client.responses.create(**{**ASKED, "input": "fox " * 5000}))}


CASES = [create, create_with_items, create_with_instructions, create_stream, stream, from_async, logprobs, kept, input_items, cancel, parse, tool_loop, tool_stream,
         tool_choices, errors]
print(json.dumps({**{case.__name__: case() for case in CASES}, "misfits": misfits}))
