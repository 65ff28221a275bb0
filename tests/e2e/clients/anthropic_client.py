"""Uses the package anthropic; prints {case: result} as JSON."""

import asyncio
import json
import sys

import anthropic

PROMPT = sys.argv[2]
MESSAGES = json.loads(sys.argv[3])
TOOLS = json.loads(sys.argv[4])
# The package has no arguments for these any more; the API has the fields.
GREEDY = {"temperature": 0}

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="-", timeout=60, max_retries=0)


def read(message):
    usage = message.usage
    return {"text": "".join(block.text for block in message.content), "types": [block.type for block in message.content],
            "role": message.role, "type": message.type, "model": message.model, "stop_reason": message.stop_reason,
            "stop_sequence": message.stop_sequence, "n_input": usage.input_tokens + usage.cache_read_input_tokens,
            "n_output": usage.output_tokens, "has_ids": message.id.startswith("msg_")}


def asked(**more):
    return {"model": "claude", "max_tokens": 20, "messages": MESSAGES, "extra_body": GREEDY, **more}


def create():
    answer = client.messages.create(**asked())
    assert answer._request_id
    return read(answer)


def create_with_blocks():
    """The same conversation, in blocks with marks for a cache."""
    blocks = [{"type": "text", "text": m["content"], "cache_control": {"type": "ephemeral"}} for m in MESSAGES]
    return read(client.messages.create(**asked(
        messages=[{"role": "user", "content": blocks}], metadata={"user_id": "u"}, service_tier="auto", thinking={"type": "disabled"})))


def create_stop():
    return read(client.messages.create(**asked(max_tokens=60, stop_sequences=["."])))


def create_behind_a_beginning():
    return read(client.messages.create(**asked(messages=[*MESSAGES, {"role": "assistant", "content": "Once there"}])))


def create_with_system():
    return read(client.messages.create(**asked(system=[{"type": "text", "text": "You are brief."}], max_tokens=4)))


def create_streamed():
    events = list(client.messages.create(**asked(), stream=True))
    return {"types": [e.type for e in events], "text": "".join(e.delta.text for e in events if e.type == "content_block_delta"),
            "stop_reason": events[-2].delta.stop_reason, "n_output": events[-2].usage.output_tokens}


def stream():
    with client.messages.stream(**asked()) as events:
        text = "".join(events.text_stream)
        final = events.get_final_message()
    return {"streamed": text, **read(final)}


def from_async():
    async def both():
        async with anthropic.AsyncAnthropic(base_url=sys.argv[1], api_key="-", timeout=60, max_retries=0) as other:
            whole = await other.messages.create(**asked())
            async with other.messages.stream(**asked()) as events:
                return {"whole": read(whole), "streamed": read(await events.get_final_message())}
    return asyncio.run(both())


def count_tokens():
    return client.messages.count_tokens(model="claude", messages=MESSAGES).input_tokens


def models():
    return [m.id for m in client.models.list()]


def error_of(call):
    try:
        call()
    except anthropic.APIStatusError as e:
        assert e.request_id and e.body["request_id"] == e.request_id
        return {"class": type(e).__name__, "status": e.status_code, "type": e.body["error"]["type"], "message": e.body["error"]["message"]}
    return None


def error_invalid():
    return error_of(lambda: client.messages.create(**asked(max_tokens=0)))


def error_of_stream():
    return error_of(lambda: list(client.messages.create(**asked(max_tokens=0), stream=True)))


def error_image():
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    return error_of(lambda: client.messages.create(**asked(messages=[{"role": "user", "content": [{"type": "text", "text": "?"}, image]}])))


def with_tools(**more):
    tools = [{"name": t["function"]["name"], "description": t["function"]["description"], "input_schema": t["function"]["parameters"]}
             for t in TOOLS["tools"]]
    return asked(max_tokens=60, messages=TOOLS["messages"], tools=tools, **more)


def blocks_of(message):
    return [block.text if block.type == "text" else [block.type, block.name, block.input] for block in message.content]


def tool_loop():
    """The model calls a function, gets its result and answers."""
    first = client.messages.create(**with_tools())
    result = {"type": "tool_result", "tool_use_id": first.content[-1].id, "content": TOOLS["result"]}
    messages = [*TOOLS["messages"], {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = client.messages.create(**{**with_tools(), "messages": messages})
    return {"blocks": blocks_of(first), "stop_reason": first.stop_reason, "then": blocks_of(second), "then_stop_reason": second.stop_reason}


def tool_stream():
    with client.messages.stream(**with_tools()) as streamed:
        for _ in streamed:
            pass
        message = streamed.get_final_message()
    return {"blocks": blocks_of(message), "stop_reason": message.stop_reason}


def error_tools():
    return error_of(lambda: client.messages.create(**asked(tools=[{"type": "bash_20250124", "name": "bash"}])))


CASES = [create, create_with_blocks, create_stop, create_behind_a_beginning, create_with_system, create_streamed, stream, from_async,
         count_tokens, models, error_invalid, error_of_stream, error_image,
         error_tools, tool_loop, tool_stream]
print(json.dumps({case.__name__: case() for case in CASES}))
