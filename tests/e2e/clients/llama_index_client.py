"""Uses the package llama-index-llms-openai-like; prints {case: result} as JSON."""

import asyncio
import json
import sys

import pydantic
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

PROMPT = sys.argv[2]
MESSAGES = json.loads(sys.argv[3])
TOOLS = json.loads(sys.argv[4])
ASKED = [ChatMessage(**m) for m in MESSAGES]


class Person(pydantic.BaseModel):
    name: str
    age: int


def model(**more):
    return OpenAILike(model="tgi", api_base=sys.argv[1] + "/v1", api_key="-", timeout=60, max_retries=0, temperature=0, **more)


def chats(**more):
    return model(is_chat_model=True, is_function_calling_model=True, **more)


def complete():
    return model(max_tokens=12).complete(PROMPT).text


def complete_stream():
    return "".join(part.delta for part in model(max_tokens=12).stream_complete(PROMPT))


def chat():
    answer = chats(max_tokens=20).chat(ASKED)
    return {"content": answer.message.content, "n": answer.raw.usage.total_tokens}


def chat_stream():
    return "".join(part.delta for part in chats(max_tokens=20).stream_chat(ASKED))


def from_async():
    async def both():
        asked = chats(max_tokens=20)
        return [(await asked.achat(ASKED)).message.content, "".join([part.delta async for part in await asked.astream_chat(ASKED)])]
    return asyncio.run(both())


def get_weather(city: str) -> str:
    """Weather of a city"""
    return TOOLS["result"]


def tool_loop():
    tool = FunctionTool.from_defaults(get_weather)
    asked = chats(max_tokens=60)
    question = {"user_msg": TOOLS["messages"][0]["content"], "tool_required": True}
    answer = asked.predict_and_call([tool], **question)
    called = asked.chat_with_tools([tool], **question)
    [call] = asked.get_tool_calls_from_response(called)
    then = asked.chat([ChatMessage(**TOOLS["messages"][0]), called.message,
                       ChatMessage(role="tool", content=TOOLS["result"], additional_kwargs={"tool_call_id": call.tool_id})])
    return {"name": call.tool_name, "args": call.tool_kwargs, "output": answer.response, "then": then.message.content}


def structured():
    asked = chats(should_use_structured_outputs=True).as_structured_llm(Person)
    return isinstance(asked.complete(MESSAGES[0]["content"]).raw, Person)


CASES = [complete, complete_stream, chat, chat_stream, from_async, tool_loop, structured]
print(json.dumps({case.__name__: case() for case in CASES}))
