"""What is asked of fleets, and answers in a form that two runs can be compared in."""

from demo import MESSAGES, PROMPT
from sse import Stream

N_STREAMS = 24
# A shorter prompt than a block of tokens is computed where its answer is.
LONG_PROMPT = "One day a fox and a small bird went to the old river to look for a red stone. " * 4


def bodies(prompt=PROMPT, messages=MESSAGES):
    """(path, body): greedy and sampled, native and /v1, streams and whole answers, several sequences."""
    out = []
    for i in range(N_STREAMS):
        n = 60 + 20 * (i % 5)
        sampled = {"temperature": 1.0, "seed": i} if i % 2 else {"temperature": 0}
        if i % 4 == 0:
            parameters = {"max_new_tokens": n, "details": True, "decoder_input_details": i % 8 == 0}
            out.append(("/generate" if i % 8 == 0 else "/generate_stream", {"inputs": prompt * (1 + i % 3), "parameters": parameters}))
        elif i % 4 == 1:
            parameters = {"max_new_tokens": n, "do_sample": True, "temperature": 1.1, "seed": i, "repetition_penalty": 1.2}
            out.append(("/generate_stream", {"inputs": prompt, "parameters": parameters}))
        elif i % 4 == 2:
            out.append(("/v1/completions", {"prompt": prompt, "max_tokens": n, "ignore_eos": True, "logprobs": 2, "stream": i % 8 == 2, **sampled}))
        else:
            n_sequences = {"n": 2} if i % 8 == 7 else {}
            out.append(("/v1/chat/completions", {"messages": messages, "max_tokens": n, "stream": i % 8 == 3, **sampled, **n_sequences}))
    return out


def long_bodies():
    return bodies(LONG_PROMPT, [{"role": "user", "content": LONG_PROMPT}])


def comparable(document):
    """Without what depends on what came before, or was drawn."""
    out = {k: v for k, v in document.items() if k not in ("id", "created")}
    if "prompt_tokens_details" in (out.get("usage") or {}):
        del out["usage"]["prompt_tokens_details"]
    return out


def answer_of(launcher, path, body):
    """What the client has in the end, in a form that two runs can be compared in."""
    if not (body.get("stream") or path == "/generate_stream"):
        response = launcher.post(path, body)
        assert response.status_code == 200, response.text
        return comparable(response.json())
    with Stream(launcher.url, path, body) as stream:
        events = list(stream.events())
    assert stream.status == 200 and not any("error" in e for e in events), events[-1]
    return [comparable(e) for e in events]
