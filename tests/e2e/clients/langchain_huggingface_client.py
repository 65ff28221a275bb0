"""Uses the package langchain-huggingface; prints {case: result} as JSON."""

import asyncio
import json
import sys

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_huggingface import ChatHuggingFace, HuggingFaceEndpoint

URL = sys.argv[1]
PROMPT = sys.argv[2]
MESSAGES = json.loads(sys.argv[3])
TOOLS = json.loads(sys.argv[4])
GREEDY = {"temperature": None, "top_k": None, "top_p": None, "typical_p": None}


def endpoint(**more):
    return HuggingFaceEndpoint(endpoint_url=URL, timeout=60, **more)


def chat(max_tokens):
    # A name, so that no tokenizer is fetched. The package keeps its own field `seed` to itself and takes a temperature of 0 for none.
    return ChatHuggingFace(llm=endpoint(**GREEDY), model_id="tgi", tokenizer=object(), temperature=0.3, max_tokens=max_tokens,
                           model_kwargs={"seed": 7})


def generate():
    return endpoint(**GREEDY, max_new_tokens=12).invoke(PROMPT)


def generate_stream():
    return list(endpoint(**GREEDY, max_new_tokens=12).stream(PROMPT))


def generate_stop():
    return endpoint(**GREEDY, max_new_tokens=60, stop_sequences=["."]).invoke(PROMPT)


def generate_from_async():
    async def both():
        model = endpoint(**GREEDY, max_new_tokens=12)
        return [await model.ainvoke(PROMPT), "".join([part async for part in model.astream(PROMPT)])]
    return asyncio.run(both())


def generate_by_defaults():
    """It samples, with every field that the package has."""
    return [endpoint(seed=7, max_new_tokens=12).invoke(PROMPT) for _ in range(2)]


def chat_whole():
    answer = chat(20).invoke(MESSAGES[0]["content"])
    return {"content": answer.content, "finish_reason": answer.response_metadata["finish_reason"], "n": answer.usage_metadata["total_tokens"]}


def chat_stream():
    return "".join(part.content for part in chat(20).stream(MESSAGES[0]["content"]))


def tool_loop():
    model = chat(60).bind_tools(TOOLS["tools"])
    asked = HumanMessage(TOOLS["messages"][0]["content"])
    called = model.invoke([asked])
    [call] = called.tool_calls
    then = model.invoke([asked, called, ToolMessage(TOOLS["result"], tool_call_id=call["id"])])
    return {"name": call["name"], "args": call["args"], "then": then.content}


CASES = [generate, generate_stream, generate_stop, generate_from_async, generate_by_defaults, chat_whole, chat_stream, tool_loop]
print(json.dumps({case.__name__: case() for case in CASES}))
