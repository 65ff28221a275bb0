"""Uses the package smolagents; prints {case: result} as JSON."""

from smolagents import CodeAgent, OpenAIModel, Tool, ToolCallingAgent

import agent_tasks
from agent_tasks import BASE_URL, LIMIT, calls, run

MODEL = OpenAIModel("tgi", api_base=BASE_URL, api_key="-", client_kwargs={"max_retries": 0, "timeout": 60}, temperature=0, max_tokens=LIMIT)


class GetWeather(Tool):
    name = "get_weather"
    description = "Weather of a city"
    inputs = {"city": {"type": "string", "description": "Name of the city"}}
    output_type = "string"

    def forward(self, city):
        return agent_tasks.get_weather(city)


def answer(kind, question, **more):
    agent = kind(tools=[GetWeather()], model=MODEL, max_steps=3, verbosity_level=0, **more)
    return {"final": agent.run(question), "calls": calls(), "errors": [str(step.error) for step in agent.memory.steps if getattr(step, "error", None)],
            "steps": sum(hasattr(step, "step_number") for step in agent.memory.steps)}


def tool_calling():
    return answer(ToolCallingAgent, "Smoke over Lima?")


def tool_calling_stream():
    return answer(ToolCallingAgent, "Smoke over Lima?", stream_outputs=True)


def code():
    return answer(CodeAgent, "Code for Kyiv!")


def code_stream():
    return answer(CodeAgent, "Code for Kyiv!", stream_outputs=True)


def code_structured():
    """Thought and code as JSON of a schema."""
    return answer(CodeAgent, "Structured code for Bonn!", use_structured_outputs_internally=True)


run([tool_calling, tool_calling_stream, code, code_stream, code_structured])
