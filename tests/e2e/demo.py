"""The model that the tests serve unless they say otherwise, and what they ask it. Expected answers are in its golden.json alone."""

import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/demo"
CONFIG = json.loads((MODEL / "config.json").read_text())
CONTEXT = CONFIG["max_position_embeddings"]
VOCABULARY = CONFIG["vocab_size"]

# Both are continued by a story of several sentences, so there are tokens enough to look at, a full stop and an end.
PROMPT = "Once there was a fox"
MESSAGES = [{"role": "user", "content": "Tell me a story about a fox."}]
# The demo model was trained to choose among such functions, and to say that it has none.
ASKS_FOR_A_TOOL = [{"role": "user", "content": "What is the weather in Oslo?"}]
WEATHER = {"name": "get_weather", "description": "Weather of a city",
           "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
TIMER = {"name": "set_timer", "description": "Start a timer",
         "parameters": {"type": "object", "properties": {"minutes": {"type": "integer"}}, "required": ["minutes"]}}
TOOLS = [{"type": "function", "function": WEATHER}, {"type": "function", "function": TIMER}]
WEATHER_RESULT = '{"temperature": 4, "sky": "cloudy"}'


def counts(usage):
    """Of a usage, what the same request has every time: how much of a prompt is in the cache depends on what came before."""
    assert list(usage) == ["prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"]
    assert list(usage["prompt_tokens_details"]) == ["cached_tokens"]
    assert 0 <= usage["prompt_tokens_details"]["cached_tokens"] < usage["prompt_tokens"]
    return {name: value for name, value in usage.items() if name != "prompt_tokens_details"}
