"""Uses huggingface_hub.InferenceClient with a base URL; prints {case: result} as JSON."""

import json
import sys

from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError, ValidationError

PROMPT = sys.argv[2]
MESSAGES = json.loads(sys.argv[3])
TOOLS = json.loads(sys.argv[4])

client = InferenceClient(base_url=sys.argv[1], timeout=60)


def tokens(answers):
    return [{"id": t.id, "text": t.text, "logprob": t.logprob, "special": t.special} for t in answers]


def text_generation():
    return client.text_generation(PROMPT, max_new_tokens=12)


def text_generation_alone():
    return client.text_generation(PROMPT, max_new_tokens=12, return_full_text=False)


def text_generation_details():
    answer = client.text_generation(PROMPT, max_new_tokens=12, details=True, decoder_input_details=True, return_full_text=False)
    d = answer.details
    return {"text": answer.generated_text, "finish_reason": d.finish_reason, "n": d.generated_tokens,
            "tokens": tokens(d.tokens), "prefill": [[t.id, t.text, t.logprob] for t in d.prefill]}


def text_generation_stream():
    return list(client.text_generation(PROMPT, max_new_tokens=12, stream=True))


def text_generation_stream_details():
    answers = list(client.text_generation(PROMPT, max_new_tokens=12, stream=True, details=True, return_full_text=False))
    last = answers[-1]
    return {"tokens": tokens(a.token for a in answers), "text": last.generated_text,
            "finish_reason": last.details.finish_reason, "input_length": last.details.input_length}


def chat_completion():
    answer = client.chat_completion(MESSAGES, max_tokens=20, temperature=0.0)
    choice = answer.choices[0]
    return {"content": choice.message.content, "role": choice.message.role, "finish_reason": choice.finish_reason,
            "total_tokens": answer.usage.total_tokens, "id": answer.id}


def chat_completion_logprobs():
    answer = client.chat_completion(MESSAGES, max_tokens=3, temperature=0.0, logprobs=True, top_logprobs=2)
    return [[t.token, t.logprob, len(t.top_logprobs)] for t in answer.choices[0].logprobs.content]


def chat_completion_stream():
    chunks = list(client.chat_completion(MESSAGES, max_tokens=20, temperature=0.0, stream=True))
    return {"content": "".join(c.choices[0].delta.content or "" for c in chunks), "finish_reason": chunks[-1].choices[0].finish_reason,
            "roles": sorted({c.choices[0].delta.role for c in chunks})}


def chat_by_openai_names():
    answer = client.chat.completions.create(model="tgi", messages=MESSAGES, max_tokens=20, temperature=0.0)
    return answer.choices[0].message.content


def asked():
    return {"messages": TOOLS["messages"], "tools": TOOLS["tools"], "max_tokens": 60, "temperature": 0.0}


def tool_call():
    choice = client.chat_completion(**asked()).choices[0]
    return {"calls": [[c.type, c.function.name, c.function.arguments] for c in choice.message.tool_calls], "content": choice.message.content,
            "finish_reason": choice.finish_reason}


def tool_call_stream():
    chunks = [chunk.choices[0] for chunk in client.chat_completion(**asked(), stream=True)]
    calls = [call for chunk in chunks for call in chunk.delta.tool_calls or []]
    return {"names": [c.function.name for c in calls if c.function.name], "arguments": "".join(c.function.arguments for c in calls),
            "indexes": sorted({c.index for c in calls}), "finish_reason": chunks[-1].finish_reason,
            "content": "".join(chunk.delta.content or "" for chunk in chunks)}


def validation_error():
    try:
        client.text_generation("Hi", max_new_tokens=0)
    except ValidationError as e:
        return str(e)
    return None


def chat_error():
    try:
        client.chat_completion(MESSAGES, max_tokens=0)
    except HfHubHTTPError as e:
        return e.response.status_code
    return None


CASES = [text_generation, text_generation_alone, text_generation_details, text_generation_stream, text_generation_stream_details,
         chat_completion, chat_completion_logprobs, chat_completion_stream, chat_by_openai_names, tool_call, tool_call_stream,
         validation_error, chat_error]
print(json.dumps({case.__name__: case() for case in CASES}))
