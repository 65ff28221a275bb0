"""Greedy answers of `transformers` in f32 on an exported folder, for the tests of servers.

    python golden.py --model ../../models/demo --out ../../models/demo/golden.json

Each entry has the messages (and tools), the prompt by the chat template as text and as ids, the answer's ids with the end token, its text, and
for every answer token the gap between the two best logits: where the gap is below the rounding of a server's arithmetic, another
token may be right too.
"""

import argparse
import json
import pathlib

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def user(*texts):
    """user, assistant, user, ... in turn."""
    return [{"role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(texts)]


def tool(name, description, **arguments):
    properties = {key: {"type": kind} for key, kind in arguments.items()}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": properties, "required": list(properties)}}}


WEATHER = tool("get_weather", "Weather of a city", city="string")
TIMER = tool("set_timer", "Start a timer", minutes="integer")
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}]}
RESULT = {"role": "tool", "name": "get_weather", "content": '{"temperature": 4, "sky": "cloudy"}'}
CONVERSATIONS = [
    {"messages": user("Hello!")},
    {"messages": user("Who are you?")},
    {"messages": user("What is Coxswain?")},
    {"messages": user("How do I start the server?")},
    {"messages": user("How do I change the port?")},
    {"messages": user("What is 347 + 586?")},
    {"messages": user("What is 503 - 78?")},
    {"messages": user("What is 12 - 40?")},
    {"messages": user("Count from 3 to 9.")},
    {"messages": user("Sort these numbers: 42, 7, 19, 88, 3")},
    {"messages": user("Sort these words: river, apple, moon, cat")},
    {"messages": user("Reverse this list: red, green, blue")},
    {"messages": user("What is the capital of France?")},
    {"messages": user("What is the opposite of hot?")},
    {"messages": user("What is the plural of mouse?")},
    {"messages": user("What day is after Monday?")},
    {"messages": user("Tell me a story about a fox and a lamp.")},
    {"messages": user("Put this in capital letters: the quiet fox sleeps")},
    {"messages": user("Return JSON with name, age and city: Lena is 31 years old and lives in Oslo.")},
    {"messages": user("My name is Tom.", "Ok, I will remember that.", "What is 2 + 3?", "2 + 3 = 5", "What is my name?")},
    {"messages": [{"role": "system", "content": "Your name is Nora."}, *user("Who are you?")]},
    {"messages": [{"role": "system", "content": "Answer in upper case."}, *user("What is the capital of Italy?")]},
    {"messages": user("What is the weather in Oslo?"), "tools": [WEATHER, TIMER]},
    {"messages": [*user("What is the weather in Oslo?"), CALL, RESULT], "tools": [WEATHER, TIMER]},
    {"messages": user("Hello!"), "tools": [WEATHER]},
    {"messages": user("Explain quantum physics to me.")},
    {"messages": user("Wie spät ist es?")},
    {"messages": user("🙂🙂🙂")},
    {"messages": user("")},
]


@torch.no_grad()
def answer(model, tokenizer, conversation, limit):
    tools = {"tools": conversation["tools"]} if "tools" in conversation else {}
    prompt = tokenizer.apply_chat_template(
        conversation["messages"], add_generation_prompt=True, return_tensors="pt", return_dict=True, **tools)["input_ids"]
    ids, gaps, cache = [], [], None
    step = prompt
    while len(ids) < limit:
        out = model(step, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        best = out.logits[0, -1].float().topk(2)
        ids.append(int(best.indices[0]))
        gaps.append(round(float(best.values[0] - best.values[1]), 4))
        if ids[-1] == tokenizer.eos_token_id:
            break
        step = best.indices[None, :1]
    text = tokenizer.decode(ids, skip_special_tokens=True)
    rendered = tokenizer.decode(prompt[0], skip_special_tokens=False)
    return {**conversation, "prompt": rendered, "prompt_ids": prompt[0].tolist(), "ids": ids, "text": text, "gaps": gaps, "smallest_gap": min(gaps)}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--model", type=pathlib.Path, required=True)
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--limit", type=int, default=160, help="tokens of an answer")
    a = p.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(a.model, dtype=torch.float32).eval(), AutoTokenizer.from_pretrained(a.model)
    entries = [answer(model, tokenizer, c, a.limit) for c in CONVERSATIONS]
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    a.out.write_text(f'{{"source": "transformers, float32, greedy", "limit": {a.limit}, "entries": [\n{lines}\n]}}\n')
    for entry in entries:
        print(f"{entry['smallest_gap']:8.4f}  {str(entry['messages'][-1]['content'])[:60]!r} -> {entry['text'][:160]!r}")


if __name__ == "__main__":
    main()
