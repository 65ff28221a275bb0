"""The tokenizer, the chat template and their rendering into training data.

    python tokenizer.py --out data/tokenizer

Byte-level BPE with the split pattern of Qwen2 (one digit per token, the letters of one word together), trained on rendered
conversations of tasks/. `render` builds what the template would, piece by piece, so that each piece has its place in the loss;
`check_template` compares the two on drawn conversations and is run by make_data.py.
"""

import argparse
import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

VOCABULARY = 3072
SPECIAL = ["<|end|>", "<|pad|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|tool_call|>"]
END, PAD, SYSTEM, USER, ASSISTANT, TOOL, TOOL_CALL = range(len(SPECIAL))
ROLE_IDS = {"system": SYSTEM, "user": USER, "assistant": ASSISTANT, "tool": TOOL}
CONTEXT = 2048
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# Markers are literals: a server may treat what comes from a message, its role too, as text that holds no special token.
# Tools stand at the end of the system turn, one JSON object a line: name, description, and its arguments with their types.
CHAT_TEMPLATE = """\
{%- macro text(content) %}{% if content is string %}{{ content }}
{%- elif content %}{% for part in content %}{{ part['text'] }}{% endfor %}{% endif %}{% endmacro -%}
{%- macro tool_list() %}Tools:{% for tool in tools %}{% set f = tool['function'] if 'function' in tool else tool %}
{{ '\\n{"name": ' }}{{ f['name'] | tojson }}
{%- if f['description'] %}{{ ', "description": ' }}{{ f['description'] | tojson }}{% endif %}
{{- ', "arguments": {' }}
{%- if f['parameters'] and f['parameters']['properties'] %}{% for name, kind in f['parameters']['properties'] | items %}
{{- name | tojson }}: {{ (kind['type'] if kind['type'] is string else 'any') | tojson }}{% if not loop.last %}{{ ', ' }}{% endif %}
{%- endfor %}{% endif %}
{{- '}}' }}{% endfor %}{% endmacro -%}
{%- if tools and (not messages or messages[0]['role'] not in ['system', 'developer']) %}<|system|>{{ tool_list() }}<|end|>{% endif -%}
{%- for message in messages %}
{%- set role = message['role'] %}
{%- if role == 'user' %}<|user|>
{%- elif role == 'assistant' %}<|assistant|>
{%- elif role == 'tool' %}<|tool|>
{%- elif role == 'system' or role == 'developer' %}<|system|>
{%- else %}{{ raise_exception('unknown role: ' + role) }}{% endif -%}
{{ text(message['content']) }}
{%- if (role == 'system' or role == 'developer') and loop.first and tools %}{{ '\\n' if message['content'] else '' }}{{ tool_list() }}{% endif %}
{%- if message['tool_calls'] %}{% for call in message['tool_calls'] %}{% set f = call['function'] if 'function' in call else call -%}
<|tool_call|>{{ '{"name": ' }}{{ f['name'] | tojson }}{{ ', "arguments": ' }}
{{- f['arguments'] if f['arguments'] is string else f['arguments'] | tojson }}{{ '}' }}
{%- endfor %}{% endif -%}
<|end|>
{%- endfor %}
{%- if add_generation_prompt %}<|assistant|>{% endif %}"""


def to_json(value):
    return json.dumps(value, ensure_ascii=False)


def tool_line(tool):
    f = tool["function"]
    kinds = {name: kind.get("type", "any") for name, kind in f.get("parameters", {}).get("properties", {}).items()}
    return to_json({k: v for k, v in (("name", f["name"]), ("description", f.get("description")), ("arguments", kinds)) if v is not None})


def render(case):
    """Pieces of a conversation: (role, text, calls) where calls are the JSON texts of tool calls."""
    messages, tools = case["messages"], case.get("tools")
    listing = "Tools:\n" + "\n".join(map(tool_line, tools)) if tools else ""
    pieces = []
    if tools and messages[0]["role"] != "system":
        pieces.append(("system", listing, ()))
    for i, m in enumerate(messages):
        text = m.get("content") or ""
        if i == 0 and tools and m["role"] == "system":
            text = f"{text}\n{listing}" if text else listing
        calls = [to_json({key: c["function"][key] for key in ("name", "arguments")}) for c in m.get("tool_calls") or ()]
        pieces.append((m["role"], text, calls))
    return pieces


def as_text(pieces):
    return "".join(f"<|{role}|>{text}" + "".join(f"<|tool_call|>{c}" for c in calls) + "<|end|>" for role, text, calls in pieces)


def check_template(cases):
    """Raises where the template and `render` differ."""
    import jinja2.sandbox

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = to_json
    template = env.from_string(CHAT_TEMPLATE)
    for case in cases:
        expected = template.render(messages=case["messages"], tools=case.get("tools"), add_generation_prompt=False)
        if expected != as_text(render(case)):
            raise SystemExit(f"template and render differ:\n{expected}\n{as_text(render(case))}")


def train_tokenizer(cases, vocabulary=VOCABULARY):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False,
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    texts = (t for case in cases for _, text, calls in render(case) for t in (text, *calls) if t)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def save_tokenizer(tokenizer, out):
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(out / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "pad_token": "<|pad|>", "add_bos_token": False,
                "clean_up_tokenization_spaces": False, "model_max_length": CONTEXT, "chat_template": CHAT_TEMPLATE}
    (out / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def main():
    from tasks import draw

    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--cases", type=int, default=60000)
    p.add_argument("--seed", type=int, default=7)
    a = p.parse_args()
    rng = random.Random(a.seed)
    cases = [draw(rng, "train") for _ in range(a.cases)]
    check_template(cases[:3000])
    tokenizer = train_tokenizer(cases)
    save_tokenizer(tokenizer, a.out)
    count = sum(len(e.ids) for e in tokenizer.encode_batch([as_text(render(c)) for c in cases[:5000]]))
    print(f"{tokenizer.get_vocab_size()} entries, {count / 5000:.1f} tokens a conversation, into {a.out}")


if __name__ == "__main__":
    main()
