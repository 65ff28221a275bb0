"""What is measured, and how, of every engine that is driven in its own process.

A worker (worker_*.py) loads a model, then answers a line of JSON to each line that it reads: a row's name and a number.
All use the same two measurements, so that what an engine's interface adds counts for every engine alike:

  prefill N   a prompt of N tokens, up to its first token: N / seconds
  decode N    N prompts of 32 tokens together; the time of 4 + G new tokens less that of 4: N * G / seconds

Prompts are random ids, new ones each time, so that no cache knows them.
"""
import json
import random
import sys
import time

PROMPT_OF_DECODE = 32
FIRST_TOKENS = 4


def tokens_of_decode(n_streams):
    """G of a row: enough for a second or more."""
    return 48 if n_streams == 1 else 32


class Prompts:
    def __init__(self, seed):
        self.pick = random.Random(seed)

    def ids(self, n_tokens):
        return [self.pick.randrange(100, 1000) for _ in range(n_tokens)]


def seconds_of(engine, prompts, n_new):
    begin = time.monotonic()
    engine.generate(prompts, n_new)
    return time.monotonic() - begin


def measure(engine, prompts, kind, n):
    if kind == "prefill":
        return n / seconds_of(engine, [prompts.ids(n)], 1)
    n_new = tokens_of_decode(n)
    short = seconds_of(engine, [prompts.ids(PROMPT_OF_DECODE) for _ in range(n)], FIRST_TOKENS)
    long = seconds_of(engine, [prompts.ids(PROMPT_OF_DECODE) for _ in range(n)], FIRST_TOKENS + n_new)
    return n * n_new / (long - short)


def serve(engine, seed):
    """Answers rows from standard input until it ends. `engine.generate(prompts, n_new)` computes exactly n_new tokens
    behind each of `prompts`, lists of ids, greedily; engine.clients(...) is there if it serves without HTTP."""
    prompts = Prompts(seed)
    engine.generate([prompts.ids(PROMPT_OF_DECODE)], FIRST_TOKENS)  # what is made at the first use
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        kind, n = line.split()
        answer = engine.clients(prompts, int(n)) if kind == "server" else {"tokens_per_s": measure(engine, prompts, kind, int(n))}
        print(json.dumps(answer), flush=True)
