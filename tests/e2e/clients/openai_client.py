"""Uses the package openai; prints {case: result} as JSON."""

import json
import sys
import typing
import urllib.request

import openai
import pydantic
from openai.types import Completion, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk

PROMPT = sys.argv[2]
MESSAGES = json.loads(sys.argv[3])
TOOLS = json.loads(sys.argv[4])

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="-", timeout=60, max_retries=0)


def counts(usage):
    """Without what depends on the cache."""
    assert usage.prompt_tokens_details.cached_tokens is not None
    return {name: value for name, value in usage.to_dict().items() if name != "prompt_tokens_details"}


def models_list():
    listed = [[m.id, m.object] for m in client.models.list()]
    one = client.models.retrieve(listed[0][0])
    assert [[one.id, one.object]] == listed
    try:
        client.models.retrieve("org/other")
    except openai.NotFoundError as error:
        assert error.code == "model_not_found"
    return listed


def completion():
    answer = client.completions.create(model="tgi", prompt=PROMPT, max_tokens=12, temperature=0)
    return {"text": answer.choices[0].text, "finish_reason": answer.choices[0].finish_reason, "usage": counts(answer.usage)}


def completion_list():
    answer = client.completions.create(model="tgi", prompt=[PROMPT, "The dog"], max_tokens=6, temperature=0)
    return {"texts": [c.text for c in answer.choices], "indexes": [c.index for c in answer.choices], "usage": counts(answer.usage)}


def completion_stream():
    chunks = list(client.completions.create(
        model="tgi", prompt=PROMPT, max_tokens=12, temperature=0, stream=True, stream_options={"include_usage": True}))
    parts = [c for c in chunks if c.choices]
    return {"text": "".join(c.choices[0].text for c in parts), "finish_reason": parts[-1].choices[0].finish_reason,
            "usage": counts(chunks[-1].usage), "choices_of_last": len(chunks[-1].choices)}


def completion_echo_logprobs():
    answer = client.completions.create(model="tgi", prompt=PROMPT, max_tokens=1, temperature=0, logprobs=1, echo=True, seed=1)
    choice = answer.choices[0]
    return {"text": choice.text, **choice.logprobs.to_dict()}


def chat():
    answer = client.chat.completions.create(model="tgi", messages=MESSAGES, max_tokens=20, temperature=0)
    choice = answer.choices[0]
    return {"content": choice.message.content, "role": choice.message.role, "finish_reason": choice.finish_reason,
            "id": answer.id, "object": answer.object, "model": answer.model, "usage": counts(answer.usage)}


def chat_stream():
    chunks = list(client.chat.completions.create(model="tgi", messages=MESSAGES, max_tokens=20, temperature=0, stream=True))
    return {"content": "".join(c.choices[0].delta.content or "" for c in chunks), "finish_reason": chunks[-1].choices[0].finish_reason,
            "usages": [c.usage for c in chunks], "ids": sorted({c.id for c in chunks})}


def chat_stream_usage():
    chunks = list(client.chat.completions.create(
        model="tgi", messages=MESSAGES, max_tokens=20, temperature=0, stream=True, stream_options={"include_usage": True}))
    return {"usage": counts(chunks[-1].usage), "choices_of_last": len(chunks[-1].choices),
            "usages_before": [c.usage for c in chunks[:-1]]}


def chat_logprobs():
    answer = client.chat.completions.create(
        model="tgi", messages=MESSAGES, max_tokens=3, temperature=0, logprobs=True, top_logprobs=2)
    return [[t.token, t.logprob, [a.logprob for a in t.top_logprobs]] for t in answer.choices[0].logprobs.content]


def chat_several():
    answer = client.chat.completions.create(model="tgi", messages=MESSAGES, max_tokens=8, n=2, seed=3)
    return [c.index for c in answer.choices]


def chat_stop():
    answer = client.chat.completions.create(model="tgi", messages=MESSAGES, max_tokens=60, temperature=0, stop=".")
    return {"content": answer.choices[0].message.content, "finish_reason": answer.choices[0].finish_reason}


def chat_after_a_function_call():
    """An agent's second turn, with everything that changes nothing."""
    answer = client.chat.completions.create(
        model="tgi", max_tokens=8, max_completion_tokens=8, temperature=0, tool_choice="none", store=False, service_tier="auto", seed=-1,
        tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}], logprobs=True, top_logprobs=20,
        extra_body={"top_k": -1},
        messages=[*MESSAGES,
                  {"role": "assistant", "content": None,
                   "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                  {"role": "tool", "tool_call_id": "a", "content": "4"}])
    return {"finish_reason": answer.choices[0].finish_reason, "tops": {len(t.top_logprobs) for t in answer.choices[0].logprobs.content} == {20}}


def asked(**more):
    return {"model": "tgi", "max_tokens": 60, "temperature": 0, "messages": TOOLS["messages"], "tools": TOOLS["tools"], **more}


def calls_of(message):
    return [[call.type, call.function.name, call.function.arguments] for call in message.tool_calls or []]


def tool_loop():
    """The model calls a function, gets its result and answers."""
    first = client.chat.completions.create(**asked()).choices[0]
    turn = {"role": "tool", "tool_call_id": first.message.tool_calls[0].id, "content": TOOLS["result"]}
    second = client.chat.completions.create(**asked(messages=[*TOOLS["messages"], first.message, turn])).choices[0]
    return {"calls": calls_of(first.message), "content": first.message.content, "finish_reason": first.finish_reason,
            "then": [second.message.content, second.finish_reason, calls_of(second.message)]}


def tool_stream():
    with client.chat.completions.stream(**asked()) as stream:
        events = [event.type for event in stream]
        choice = stream.get_final_completion().choices[0]
    return {"calls": calls_of(choice.message), "content": choice.message.content, "finish_reason": choice.finish_reason,
            "argument_events": events.count("tool_calls.function.arguments.delta")}


def tool_choices():
    """What has to be called is called, whatever the question."""
    hello = [{"role": "user", "content": "Hello!"}]
    out = {}
    for name, choice in {"auto": "auto", "none": "none", "required": "required",
                         "named": {"type": "function", "function": {"name": "set_timer"}}}.items():
        answer = client.chat.completions.create(**asked(messages=hello, tool_choice=choice)).choices[0]
        out[name] = {"names": [call.function.name for call in answer.message.tool_calls or []],
                     "arguments": [sorted(json.loads(call.function.arguments)) for call in answer.message.tool_calls or []],
                     "has_content": bool(answer.message.content)}
    return out


def error_of_tools():
    return error_of(lambda: client.chat.completions.create(**asked(tool_choice={"type": "function", "function": {"name": "none"}})))


class Story(pydantic.BaseModel):
    hero: typing.Literal["fox", "bird"]
    n_friends: int = pydantic.Field(ge=1, le=9)


def parsed(completion):
    choice = completion.choices[0]
    story = choice.message.parsed
    return {"type": type(story).__name__, "hero": story.hero, "n_friends": story.n_friends, "finish_reason": choice.finish_reason,
            "content": choice.message.content}


def parse():
    return parsed(client.chat.completions.parse(model="tgi", messages=MESSAGES, max_tokens=100, temperature=0, response_format=Story))


def parse_stream():
    with client.chat.completions.stream(model="tgi", messages=MESSAGES, max_tokens=100, temperature=0, response_format=Story) as stream:
        for _ in stream:
            pass
        return parsed(stream.get_final_completion())


def json_object():
    answer = client.chat.completions.create(
        model="tgi", messages=MESSAGES, max_tokens=40, temperature=0, response_format={"type": "json_object"})
    return {"begins": answer.choices[0].message.content.lstrip().startswith("{")}


def error_of(call):
    try:
        call()
    except openai.APIStatusError as e:
        return {"class": type(e).__name__, "status": e.status_code, "type": e.body.get("type"), "param": e.param, "code": e.code,
                "message": e.body.get("message")}
    return None


def error_invalid():
    return error_of(lambda: client.chat.completions.create(model="tgi", messages=MESSAGES, max_tokens=0))


def error_of_stream():
    return error_of(lambda: list(client.chat.completions.create(model="tgi", messages=MESSAGES, max_tokens=0, stream=True)))


def error_unsupported_field():
    return error_of(lambda: client.chat.completions.create(model="tgi", messages=MESSAGES, prediction={"type": "content", "content": "x"}))


def error_bad_schema():
    schema = {"type": "object", "properties": {"a": {"type": "colour"}}}
    return error_of(lambda: client.chat.completions.create(
        model="tgi", messages=MESSAGES, response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}))


def error_too_long():
    return error_of(lambda: client.chat.completions.create(model="tgi", messages=[{"role": "user", "content": "fox " * 5000}]))


def error_not_found():
    return error_of(lambda: client.embeddings.create(model="tgi", input="x"))


def raw(path, body):
    request = urllib.request.Request(sys.argv[1] + "/v1" + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        text = response.read().decode()
    if not body.get("stream"):
        return [json.loads(text)]
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ") and line != "data: [DONE]"]


def misfits():
    """What does not fit the client's own types; the client itself does not check them."""
    chats = [{}, {"n": 2, "seed": 1}, {"logprobs": True, "top_logprobs": 2}, {"max_completion_tokens": 2}, {"stop": ["."]}, {"temperature": 0}]
    out = []

    def check(kind, documents, what):
        for document in documents:
            try:
                pydantic.TypeAdapter(kind).validate_python(document)
            except pydantic.ValidationError as e:
                out.append([what, str(e)])

    for more in chats:
        body = {"messages": MESSAGES, **({} if "max_completion_tokens" in more else {"max_tokens": 4}), **more}
        check(ChatCompletion, raw("/chat/completions", body), str(more))
        stream = {"stream": True, "stream_options": {"include_usage": True}}
        check(ChatCompletionChunk, raw("/chat/completions", {**body, **stream}), f"stream {more}")
    for more in [{}, {"n": 2}, {"prompt": ["a", "b"]}, {"prompt": [5, 6]}, {"stop": "."}, {"logprobs": 2}, {"echo": True}]:
        body = {"prompt": PROMPT, "max_tokens": 4, **more}
        check(Completion, raw("/completions", body), str(more))
        chunks = raw("/completions", {**body, "stream": True})
        for chunk in chunks:  # null before the end, as OpenAI sends it; the client's type does not know
            for choice in chunk["choices"]:
                choice["finish_reason"] = choice["finish_reason"] or "length"
        check(Completion, chunks, f"stream {more}")
    check(Model, [m.to_dict() for m in client.models.list()], "models")
    return out


CASES = [misfits, models_list, completion, completion_list, completion_stream, completion_echo_logprobs, chat, chat_stream, chat_stream_usage,
         chat_logprobs, chat_several, chat_stop, chat_after_a_function_call, tool_loop, tool_stream, tool_choices, parse, parse_stream,
         json_object, error_too_long, error_bad_schema, error_invalid, error_of_stream, error_unsupported_field, error_of_tools,
         error_not_found]
print(json.dumps({case.__name__: case() for case in CASES}))
