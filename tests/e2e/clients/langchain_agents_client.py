"""Uses the packages langchain-openai and langchain-anthropic; prints {case: result} as JSON."""

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from agent_tasks import ASKS_WEATHER, BASE_URL, LIMIT, Person, calls, get_weather, run

WEATHER_TOOL = tool(get_weather)


def of_openai(**more):
    return ChatOpenAI(model="tgi", base_url=BASE_URL, api_key="-", timeout=60, max_retries=0, temperature=0, max_tokens=LIMIT, **more)


def of_anthropic(**more):
    return ChatAnthropic(model="tgi", base_url=BASE_URL.removesuffix("/v1"), api_key="-", timeout=60, max_retries=0, temperature=0, max_tokens=LIMIT, **more)


def loop(model, ask, **binding):
    bound = model.bind_tools([WEATHER_TOOL], **binding)
    messages = [HumanMessage(ASKS_WEATHER)]
    first = ask(bound, messages)
    messages.append(first)
    for call in first.tool_calls:
        result = WEATHER_TOOL.invoke(call)
        assert isinstance(result, ToolMessage)
        messages.append(result)
    last = ask(model.bind_tools([WEATHER_TOOL]), messages)
    return {"calls": calls(), "asked": [[call["name"], call["args"]] for call in first.tool_calls], "final": last.text,
            "invalid": first.invalid_tool_calls, "more": last.tool_calls}


def whole(model, messages):
    return model.invoke(messages)


def streamed(model, messages):
    chunks = list(model.stream(messages))
    assert len(chunks) > 2
    message = chunks[0]
    for chunk in chunks[1:]:
        message += chunk
    return message


def structured(model, question, **how):
    return model.with_structured_output(Person, **how).invoke(question).model_dump()


def openai_tool_loop():
    return loop(of_openai(), whole)


def openai_tool_loop_stream():
    return loop(of_openai(), streamed)


def openai_tool_loop_strict():
    return loop(of_openai(), whole, strict=True, parallel_tool_calls=False)


def openai_forced_tool():
    return loop(of_openai(), whole, tool_choice="get_weather")


def openai_structured():
    return {"json_schema": structured(of_openai(), "Who is Ada, as JSON?", method="json_schema"),
            "json_schema_strict": structured(of_openai(), "Who is Ada, as JSON?", method="json_schema", strict=True),
            "json_mode": structured(of_openai(), "Who is Ada, as JSON?", method="json_mode"),
            "function_calling": structured(of_openai(), "Who is Ada, as Person?", method="function_calling"),
            "against_the_model": structured(of_openai(), "Who is Ada, badly?", method="function_calling")}


def openai_structured_stream():
    return list(of_openai().with_structured_output(Person, method="json_schema").stream("Who is Ada, as JSON?"))[-1].model_dump()


def anthropic_tool_loop():
    return loop(of_anthropic(), whole)


def anthropic_tool_loop_stream():
    return loop(of_anthropic(), streamed)


def anthropic_forced_tool():
    return loop(of_anthropic(), whole, tool_choice="any")


def anthropic_structured():
    return {"function_calling": structured(of_anthropic(), "Who is Ada, as Person?"),
            "against_the_model": structured(of_anthropic(), "Who is Ada, badly?"),
            "json_schema": structured(of_anthropic(), "Who is Ada, as JSON?", method="json_schema")}


run([openai_tool_loop, openai_tool_loop_stream, openai_tool_loop_strict, openai_forced_tool, openai_structured, openai_structured_stream,
     anthropic_tool_loop, anthropic_tool_loop_stream, anthropic_forced_tool, anthropic_structured])
