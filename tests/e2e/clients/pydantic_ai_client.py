"""Uses the package pydantic-ai-slim; prints {case: result} as JSON."""

import openai
from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from agent_tasks import ASKS_WEATHER, BASE_URL, LIMIT, Person, calls, get_weather, run

CLIENT = openai.AsyncOpenAI(base_url=BASE_URL, api_key="-", max_retries=0, timeout=60)
MODEL = OpenAIChatModel("tgi", provider=OpenAIProvider(openai_client=CLIENT))


def agent(output_type=str, tools=False, **more):
    return Agent(MODEL, output_type=output_type, tools=[get_weather] if tools else [], model_settings={"temperature": 0, "max_tokens": LIMIT}, **more)


async def answer(of, question):
    result = await of.run(question)
    return {"calls": calls(), "kinds": [part.part_kind for message in result.all_messages() for part in message.parts], "final": result.output}


async def tool_loop():
    return await answer(agent(tools=True), ASKS_WEATHER)


async def tool_loop_with_a_system_prompt():
    return await answer(agent(tools=True, system_prompt="Your name is Ada."), ASKS_WEATHER)


async def tool_loop_stream():
    async with agent(tools=True).run_stream(ASKS_WEATHER) as stream:
        pieces = [piece async for piece in stream.stream_text(delta=True, debounce_by=None)]
        return {"calls": calls(), "final": "".join(pieces), "pieces": len(pieces) > 1, "requests": stream.usage.requests}


async def person(output_type, question):
    return (await agent(output_type).run(question)).output.model_dump()


async def tool_output():
    return await person(ToolOutput(Person), "Who is Ada, as final_result?")


async def tool_output_against_the_model():
    return await person(ToolOutput(Person), "Who is Ada, badly?")


async def native_output():
    return await person(NativeOutput(Person), "Who is Ada, as JSON?")


async def prompted_output():
    return await person(PromptedOutput(Person), "Who is Ada, as JSON?")


async def native_output_stream():
    async with agent(NativeOutput(Person)).run_stream("Who is Ada, as JSON?") as stream:
        seen = [part.model_dump() async for part in stream.stream_output(debounce_by=None)]
        return seen[-1]


async def tool_and_tool_output():
    result = await agent(ToolOutput(Person), tools=True).run("What is the weather of Ada in Bern?")
    return {"calls": calls(), "final": result.output.model_dump()}


async def tool_and_native_output():
    result = await agent(NativeOutput(Person), tools=True).run("What is the weather of Ada in Rome?")
    return {"calls": calls(), "final": result.output.model_dump()}


async def two_outputs():
    """A union is two functions of which one has to be called."""
    class Place(Person):
        """Where something is."""
    result = await agent([Person, Place]).run("Who is Ada, of two?")
    return [type(result.output).__name__, result.output.model_dump()]


run([tool_loop, tool_loop_with_a_system_prompt, tool_loop_stream, tool_output, tool_output_against_the_model, native_output, prompted_output,
     native_output_stream, tool_and_tool_output, tool_and_native_output, two_outputs])
