"""Uses the package text-generation as its documentation shows; prints {case: result} as JSON."""

import json
import sys

from text_generation import Client
from text_generation.errors import ValidationError

PROMPT = sys.argv[2]
MESSAGES = json.loads(sys.argv[3])

client = Client(sys.argv[1], timeout=60)


def tokens(answers):
    return [{"id": t.id, "text": t.text, "logprob": t.logprob, "special": t.special} for t in answers]


def generate():
    answer = client.generate(PROMPT, max_new_tokens=12)
    d = answer.details
    return {"text": answer.generated_text, "finish_reason": d.finish_reason, "n": d.generated_tokens, "seed": d.seed,
            "tokens": tokens(d.tokens)}


def generate_with_details():
    answer = client.generate(PROMPT, max_new_tokens=4, decoder_input_details=True, top_n_tokens=3)
    d = answer.details
    return {"prefill": [[t.id, t.text, t.logprob] for t in d.prefill], "top_tokens": [tokens(step) for step in d.top_tokens]}


def generate_sampled():
    first = client.generate(PROMPT, do_sample=True, temperature=0.9, top_p=0.95, max_new_tokens=16, seed=7)
    again = client.generate(PROMPT, do_sample=True, temperature=0.9, top_p=0.95, max_new_tokens=16, seed=7)
    return {"first": first.generated_text, "again": again.generated_text, "seed": first.details.seed}


def generate_best_of():
    answer = client.generate(PROMPT, do_sample=True, temperature=0.9, best_of=2, max_new_tokens=8)
    return {"n_others": len(answer.details.best_of_sequences)}


def generate_stop():
    answer = client.generate(PROMPT, max_new_tokens=60, stop_sequences=["."])
    return {"text": answer.generated_text, "finish_reason": answer.details.finish_reason}


def generate_stream():
    answers = list(client.generate_stream(PROMPT, max_new_tokens=12))
    last = answers[-1]
    return {"tokens": tokens(a.token for a in answers), "text": last.generated_text,
            "finish_reason": last.details.finish_reason, "n": last.details.generated_tokens,
            "texts_before_the_end": [a.generated_text for a in answers[:-1]]}


def chat():
    answer = client.chat(MESSAGES, max_tokens=20, temperature=0.0)
    choice = answer.choices[0]
    return {"id": answer.id, "object": answer.object, "content": choice.message.content, "role": choice.message.role,
            "finish_reason": choice.finish_reason, "usage": answer.usage["total_tokens"]}


def chat_stream():
    """Up to the chunk with the finish reason: this client cannot read the [DONE] behind it."""
    pieces = []
    for chunk in client.chat(MESSAGES, max_tokens=20, temperature=0.0, stream=True):
        choice = chunk.choices[0] if isinstance(chunk.choices, list) else chunk.choices
        pieces.append(choice.delta.content)
        if choice.finish_reason is not None:
            return {"content": "".join(pieces), "finish_reason": choice.finish_reason}
    return {}


def validation_error():
    try:
        client.generate("fox " * 5000, max_new_tokens=5000)
    except ValidationError as e:
        return str(e)
    return None


def validation_error_of_stream():
    try:
        list(client.generate_stream("fox " * 5000, max_new_tokens=5000))
    except ValidationError as e:
        return str(e)
    return None


CASES = [generate, generate_with_details, generate_sampled, generate_best_of, generate_stop, generate_stream, chat, chat_stream,
         validation_error, validation_error_of_stream]
print(json.dumps({case.__name__: case() for case in CASES}))
