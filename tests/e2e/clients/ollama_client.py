"""Uses the packages ollama and langchain-ollama; prints {case: result} as JSON."""

import asyncio
import json
import sys

import langchain_ollama
import ollama
import pydantic

URL = sys.argv[1]
PROMPT = sys.argv[2]
MESSAGES = json.loads(sys.argv[3])
TOOLS = json.loads(sys.argv[4])
GREEDY = {"temperature": 0, "num_predict": 20}

client = ollama.Client(host=URL, timeout=60)


class Person(pydantic.BaseModel):
    name: str
    age: int


def figures(answer):
    """Of an answer's end, what the same request has every time; durations are only looked at."""
    parts = (answer.load_duration, answer.prompt_eval_duration, answer.eval_duration)
    assert min(parts) >= 0 < answer.eval_duration and answer.total_duration >= sum(parts)
    assert answer.created_at.startswith("20") and answer.created_at.endswith("Z")
    return {"model": answer.model, "done_reason": answer.done_reason, "n_prompt": answer.prompt_eval_count, "n": answer.eval_count}


def read(answer):
    assert answer.done and answer.message.role == "assistant"
    return {"text": answer.message.content, **figures(answer)}


def joined(parts):
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    return "".join(part.message.content for part in parts)


def chat():
    return read(client.chat("demo", MESSAGES, options=GREEDY, keep_alive="5m"))


def chat_stream():
    parts = list(client.chat("demo", MESSAGES, options=GREEDY, stream=True))
    return {"text": joined(parts), "several": len(parts) > 2, **figures(parts[-1])}


def chat_async():
    async def both():
        other = ollama.AsyncClient(host=URL, timeout=60)
        whole = await other.chat("demo", MESSAGES, options=GREEDY)
        parts = [part async for part in await other.chat("demo", MESSAGES, options=GREEDY, stream=True)]
        return [read(whole), {"text": joined(parts), **figures(parts[-1])}]
    return asyncio.run(both())


def chat_stop():
    return read(client.chat("demo", MESSAGES, options={**GREEDY, "num_predict": 60, "stop": ["."]}))


def chat_seeded():
    asked = {"seed": 7, "num_predict": 20}
    first, again = (read(client.chat("demo", MESSAGES, options=asked)) for _ in range(2))
    return first == again


def chat_format():
    answer = client.chat("demo", MESSAGES, options={"temperature": 0}, format=Person.model_json_schema())
    return Person.model_validate_json(answer.message.content).model_dump()


def chat_json():
    return type(json.loads(client.chat("demo", MESSAGES, options={"temperature": 0, "num_predict": 200}, format="json").message.content)).__name__


def chat_logprobs():
    answer = client.chat("demo", MESSAGES, options=GREEDY, logprobs=True, top_logprobs=2)
    return {"texts": [one.token for one in answer.logprobs], "tops": [len(one.top_logprobs) for one in answer.logprobs],
            "best": all(one.top_logprobs[0].logprob == one.logprob for one in answer.logprobs)}


def calls_of(message):
    return [[call.function.name, call.function.arguments] for call in message.tool_calls or []]


def tool_loop():
    asked = {"tools": TOOLS["tools"], "options": {"temperature": 0}}
    first = client.chat("demo", TOOLS["messages"], **asked)
    result = {"role": "tool", "tool_name": first.message.tool_calls[0].function.name, "content": TOOLS["result"]}
    second = client.chat("demo", [*TOOLS["messages"], first.message, result], **asked)
    return {"calls": calls_of(first.message), "content": first.message.content, "then": second.message.content,
            "then_calls": calls_of(second.message), "done_reason": second.done_reason}


def tool_stream():
    parts = list(client.chat("demo", TOOLS["messages"], tools=TOOLS["tools"], options={"temperature": 0}, stream=True))
    return {"calls": [call for part in parts for call in calls_of(part.message)], "content": joined(parts)}


def generate():
    answer = client.generate("demo", MESSAGES[0]["content"], options=GREEDY)
    return {"text": answer.response, **figures(answer)}


def generate_stream():
    parts = list(client.generate("demo", MESSAGES[0]["content"], options=GREEDY, stream=True))
    return {"text": "".join(part.response for part in parts), **figures(parts[-1])}


def generate_raw():
    return client.generate("demo", PROMPT, raw=True, options={**GREEDY, "num_predict": 12}).response


def generate_nothing():
    answer = client.generate("demo", keep_alive=0)
    return [answer.response, answer.done_reason, client.chat("demo").done_reason]


def models():
    listed, running, shown = client.list().models, client.ps().models, client.show("demo")
    return {"listed": [m.model for m in listed], "running": [[m.model, m.context_length] for m in running],
            "capabilities": shown.capabilities, "context": shown.modelinfo["coxswain.context_length"]}


def error_of(call):
    try:
        call()
    except ollama.ResponseError as error:
        return [error.status_code, error.error]
    return None


def errors():
    return {"invalid": error_of(lambda: client.chat("demo", MESSAGES, options={"temperature": -1})),
            "of_stream": error_of(lambda: list(client.chat("demo", MESSAGES, options={"temperature": -1}, stream=True))),
            "image": error_of(lambda: client.generate("demo", "?", images=[b"x"])),
            "pull": error_of(lambda: client.pull("demo"))[0]}


def langchain():
    model = langchain_ollama.ChatOllama(model="demo", base_url=URL, temperature=0, num_predict=20)
    asked = MESSAGES[0]["content"]
    whole = model.invoke(asked)
    tools = langchain_ollama.ChatOllama(model="demo", base_url=URL, temperature=0).bind_tools(TOOLS["tools"])
    person = langchain_ollama.ChatOllama(model="demo", base_url=URL, temperature=0).with_structured_output(Person, method="json_schema")
    return {"text": whole.content, "n": whole.usage_metadata["output_tokens"], "streamed": "".join(part.content for part in model.stream(asked)),
            "calls": [[c["name"], c["args"]] for c in tools.invoke(TOOLS["messages"][0]["content"]).tool_calls],
            "person": isinstance(person.invoke(asked), Person)}


CASES = [chat, chat_stream, chat_async, chat_stop, chat_seeded, chat_format, chat_json, chat_logprobs, tool_loop, tool_stream, generate,
         generate_stream, generate_raw, generate_nothing, models, errors, langchain]
print(json.dumps({case.__name__: case() for case in CASES}))
