"""Uses the package openai-agents; prints {case: result} as JSON."""

import openai
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled

from agent_tasks import ASKS_WEATHER, BASE_URL, LIMIT, Person, calls, get_weather, run

set_tracing_disabled(True)
MODEL = OpenAIChatCompletionsModel(model="tgi", openai_client=openai.AsyncOpenAI(base_url=BASE_URL, api_key="-", max_retries=0, timeout=60))


def agent(tools=False, **more):
    return Agent(name="Assistant", model=MODEL, model_settings=ModelSettings(temperature=0, max_tokens=LIMIT, **more.pop("settings", {})),
                 tools=[function_tool(get_weather)] if tools else [], **more)


def kinds(result):
    return [item.type for item in result.new_items]


async def tool_loop():
    result = await Runner.run(agent(tools=True), ASKS_WEATHER)
    return {"calls": calls(), "kinds": kinds(result), "final": result.final_output}


async def tool_loop_with_a_system_prompt():
    result = await Runner.run(agent(tools=True, instructions="Your name is Ada."), ASKS_WEATHER)
    return {"calls": calls(), "kinds": kinds(result), "final": result.final_output}


async def streamed(of, question):
    result = Runner.run_streamed(of, question)
    deltas = {}
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type.endswith(".delta"):
            deltas[event.data.type] = deltas.get(event.data.type, "") + event.data.delta
    return result, deltas


async def tool_loop_stream():
    result, deltas = await streamed(agent(tools=True, settings={"include_usage": True}), ASKS_WEATHER)
    return {"calls": calls(), "kinds": kinds(result), "final": result.final_output, "deltas": deltas,
            "requests": result.context_wrapper.usage.requests, "counted": result.context_wrapper.usage.output_tokens > 0}


async def forced_tool():
    result = await Runner.run(agent(tools=True, settings={"tool_choice": "required"}), ASKS_WEATHER)
    return {"calls": calls(), "final": result.final_output}


async def output_type():
    return (await Runner.run(agent(output_type=Person), "Who is Ada, as JSON?")).final_output.model_dump()


async def output_type_stream():
    return (await streamed(agent(output_type=Person), "Who is Ada, as JSON?"))[0].final_output.model_dump()


async def output_type_against_the_model():
    return (await Runner.run(agent(output_type=Person), "Who is Ada, badly?")).final_output.model_dump()


async def tool_and_output_type():
    result = await Runner.run(agent(tools=True, output_type=Person), "What is the weather of Ada in Rome?")
    return {"calls": calls(), "final": result.final_output.model_dump()}


async def handoff():
    """A call whose function is another agent."""
    expert = agent()
    expert.name = "Expert"
    result = await Runner.run(agent(handoffs=[expert]), "Ask the expert.")
    return {"last": result.last_agent.name, "final": result.final_output}


CASES = [tool_loop, tool_loop_with_a_system_prompt, tool_loop_stream, forced_tool, output_type, output_type_stream,
         output_type_against_the_model, tool_and_output_type, handoff]
if __name__ == "__main__":
    run(CASES)
