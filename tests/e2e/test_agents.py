"""Agent libraries, unchanged, through two-step loops of calls and forms of answers, against the real launcher.

What the model says is written here (--script), so that a test is of the library and the server alone; the server's
grammars bind it as they bind a model. Where the demo model can do it, it has to.
"""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

from demo import CONFIG, MODEL
from launcher import Launcher

HERE = pathlib.Path(__file__).resolve().parent
CLIENTS = ["openai_agents", "openai_agents_responses", "pydantic_ai", "langchain_agents", "instructor", "smolagents"]
END = "<|end|>"
ADA = {"name": "Ada", "age": 36}
BOB = {"name": "Bob", "age": 70}


def call(name, arguments):
    return '<|tool_call|>{"name": %s, "arguments": %s}' % (json.dumps(name), json.dumps(arguments))


def code(text):
    return f"Thought: I write code.\n<code>\n{text}\n</code>"


def structured_code(text):
    return json.dumps({"thought": "I write code.", "code": text})


def weather(city):
    return call("get_weather", {"city": city})


SKY = "In Oslo the sky is cloudy."
# What is said behind the text that a prompt has last.
SCRIPT = {
    "What is the weather in Oslo?": weather("Oslo"),
    '"sky": "cloudy"}': SKY,
    "What is the weather of Ada in Rome?": weather("Rome"),
    '"sky": "blue"}': json.dumps(ADA),
    "What is the weather of Ada in Bern?": weather("Bern"),
    '"sky": "grey"}': call("final_result", ADA),
    "Smoke over Lima?": weather("Lima"),
    '"sky": "dry"}': call("final_answer", {"answer": "In Lima it is dry."}),
    "Code for Kyiv!": code('print(get_weather(city="Kyiv"))'),
    '"sky": "pale"}': code('final_answer("In Kyiv it is pale.")'),
    "Structured code for Bonn!": structured_code('print(get_weather(city="Bonn"))'),
    '"sky": "clear"}': structured_code('final_answer("In Bonn it is clear.")'),
    "Who is Ada, as JSON?": json.dumps(ADA),
    "Who is Ada, as text?": f"Here it is:\n```json\n{json.dumps(ADA)}\n```",
    "Who is Ada, as Person?": call("Person", ADA),
    "Who is Ada, as PartialPerson?": call("PartialPerson", ADA),
    "Who is Ada, as final_result?": call("final_result", ADA),
    "Who is Ada, of two?": call("final_result_Place", ADA),
    "Who is Ada, badly?": "I would rather not say that.",  # where a form is asked for, it is not let
    "Who are both?": call("Person", ADA) + call("Person", BOB),
    "Who are they?": call("IterablePerson", {"tasks": [ADA, BOB]}),
    "Who is an elder?": call("Elder", ADA),
    "too young for an Elder": call("Elder", BOB),
    "Ask the expert.": call("transfer_to_expert", {}),
    '{"assistant": "Expert"}': "I am the expert.",
}


def script():
    return [{"after": after, "answer": answer + END} for after, answer in SCRIPT.items()]


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    """A launcher that plays SCRIPT with the demo model's tokens, in a context that holds the prompts of the libraries."""
    folder = tmp_path_factory.mktemp("scripted")
    model = folder / "model"
    shutil.copytree(MODEL, model)
    (model / "config.json").write_text(json.dumps({**CONFIG, "max_position_embeddings": 32768}))
    (folder / "script.json").write_text(json.dumps(script()))
    launcher = Launcher(["--script", folder / "script.json"], model=model).start()
    try:
        yield launcher.wait_ready()
        assert launcher.stop() == 0, launcher.log()
    finally:
        launcher.dispose()


def begin(launcher, name, *cases):
    """Runs clients/NAME_client.py beside whatever else runs."""
    python = pathlib.Path(os.environ["COXSWAIN_E2E_VENVS"]) / "venv-agents/bin/python"
    return subprocess.Popen([python, "-B", HERE / f"clients/{name}_client.py", launcher.url, *cases],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(client):
    """{case: what it returned}"""
    out, errors = client.communicate(timeout=300)
    assert client.returncode == 0, out + errors
    return json.loads(out)


@pytest.fixture(scope="module")
def clients(scripted):
    """All at once: most of the time goes into loading them, and no answer depends on what runs beside it."""
    running = {name: begin(scripted, name) for name in CLIENTS}
    yield running
    for client in running.values():
        client.kill()
        client.wait()


def client_of(name):
    @pytest.fixture(scope="module")
    def got(clients):
        return end(clients[name])
    return got


(from_openai_agents, from_openai_agents_responses, from_pydantic_ai, from_langchain, from_instructor,
 from_smolagents) = map(client_of, CLIENTS)


def is_of_the_form(person):
    """Not the script's, which has no form, but the model's own, which is held to it."""
    return person["name"] in ("Ada", "Bob") and isinstance(person["age"], int) and 0 <= person["age"] <= 150


class TestOpenAIAgents:
    def test_tool_loops(self, from_openai_agents):
        loop = {"calls": ["Oslo"], "kinds": ["tool_call_item", "tool_call_output_item", "message_output_item"], "final": SKY}
        assert from_openai_agents["tool_loop"] == loop
        assert from_openai_agents["tool_loop_with_a_system_prompt"] == loop
        assert from_openai_agents["tool_loop_stream"] == {
            **loop, "requests": 2, "counted": True,
            "deltas": {"response.function_call_arguments.delta": '{"city": "Oslo"}', "response.output_text.delta": SKY}}
        assert from_openai_agents["forced_tool"] == {"calls": ["Oslo"], "final": SKY}

    def test_output_types(self, from_openai_agents):
        assert from_openai_agents["output_type"] == from_openai_agents["output_type_stream"] == ADA
        assert is_of_the_form(from_openai_agents["output_type_against_the_model"])
        assert from_openai_agents["tool_and_output_type"] == {"calls": ["Rome"], "final": ADA}

    def test_responses_say_the_same(self, from_openai_agents, from_openai_agents_responses):
        forms = [got.pop("output_type_against_the_model") for got in (dict(from_openai_agents), dict(from_openai_agents_responses))]
        assert all(map(is_of_the_form, forms))
        assert from_openai_agents_responses == {**from_openai_agents, "output_type_against_the_model": forms[1]}

    def test_a_handoff(self, from_openai_agents):
        assert from_openai_agents["handoff"] == {"last": "Expert", "final": "I am the expert."}


class TestPydanticAI:
    def test_tool_loops(self, from_pydantic_ai):
        kinds = ["user-prompt", "tool-call", "tool-return", "text"]
        assert from_pydantic_ai["tool_loop"] == {"calls": ["Oslo"], "kinds": kinds, "final": SKY}
        assert from_pydantic_ai["tool_loop_with_a_system_prompt"] == {"calls": ["Oslo"], "kinds": ["system-prompt", *kinds], "final": SKY}
        assert from_pydantic_ai["tool_loop_stream"] == {"calls": ["Oslo"], "final": SKY, "pieces": True, "requests": 2}

    def test_output_modes(self, from_pydantic_ai):
        for case in ("tool_output", "native_output", "prompted_output", "native_output_stream"):
            assert from_pydantic_ai[case] == ADA, case
        assert is_of_the_form(from_pydantic_ai["tool_output_against_the_model"])
        assert from_pydantic_ai["two_outputs"] == ["Place", ADA]

    def test_tools_beside_an_output(self, from_pydantic_ai):
        assert from_pydantic_ai["tool_and_tool_output"] == {"calls": ["Bern"], "final": ADA}
        assert from_pydantic_ai["tool_and_native_output"] == {"calls": ["Rome"], "final": ADA}


class TestLangChain:
    def test_tool_loops(self, from_langchain):
        loop = {"calls": ["Oslo"], "asked": [["get_weather", {"city": "Oslo"}]], "final": SKY, "invalid": [], "more": []}
        for case in ("openai_tool_loop", "openai_tool_loop_stream", "openai_tool_loop_strict", "openai_forced_tool",
                     "anthropic_tool_loop", "anthropic_tool_loop_stream", "anthropic_forced_tool"):
            assert from_langchain[case] == loop, case

    def test_structured_output(self, from_langchain):
        for api in ("openai_structured", "anthropic_structured"):
            found = dict(from_langchain[api])
            assert is_of_the_form(found.pop("against_the_model"))
            assert list(found.values()) == [ADA] * len(found), found
        assert from_langchain["openai_structured_stream"] == ADA


class TestInstructor:
    def test_modes(self, from_instructor):
        modes = ["TOOLS", "TOOLS_STRICT", "FUNCTIONS", "JSON", "JSON_SCHEMA", "MD_JSON"]
        assert from_instructor["modes"] == {mode: ADA for mode in modes}
        assert from_instructor["modes_stream"] == {mode: [ADA, True] for mode in modes}
        assert from_instructor["of_messages"] == {"ANTHROPIC_TOOLS": ADA, "ANTHROPIC_JSON": ADA}
        assert all(map(is_of_the_form, from_instructor["against_the_model"].values()))

    def test_several_calls(self, from_instructor):
        assert from_instructor["parallel_tools"] == from_instructor["iterable"] == [ADA, BOB]

    def test_a_call_that_is_refused_is_made_again(self, from_instructor):
        assert from_instructor["retry"] == BOB


class TestSmolagents:
    def test_agents(self, from_smolagents):
        def loop(city, sky):
            return {"final": f"In {city} it is {sky}.", "calls": [city], "errors": [], "steps": 2}

        assert from_smolagents["tool_calling"] == from_smolagents["tool_calling_stream"] == loop("Lima", "dry")
        assert from_smolagents["code"] == from_smolagents["code_stream"] == loop("Kyiv", "pale")
        assert from_smolagents["code_structured"] == loop("Bonn", "clear")


@pytest.mark.parametrize("name", ["openai_agents", "pydantic_ai"])
def test_the_demo_model_can_do_it(server, name):
    cases = ["tool_loop", "tool_loop_with_a_system_prompt", "tool_loop_stream"]
    got = end(begin(server, name, *cases))
    for case in cases:
        assert (got[case]["calls"], got[case]["final"]) == (["Oslo"], "It is 4 degrees and cloudy in Oslo."), case
