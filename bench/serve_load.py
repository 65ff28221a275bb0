#!/usr/bin/env python3
"""Load on a running server: a number of clients, each with one streamed request after the other.

    bench/serve_load.py URL [--clients N] [--requests N] [--prompt-tokens N] [--new-tokens N] [--n N] [--hostile N]

Every request has a prompt of its own, of that many token ids, to /v1/completions, and gets that many tokens. Prints
tokens per second of the whole run, and the times to the first token and between two pieces of a stream (one token
each but where the client fell behind) in ms at the 50th and 99th of 100, and how often --target-itl-ms could not be
kept by a server that has it. Needs the standard library only. With
--n above 1 a request has so many choices; the time to the first token is that of the first of each choice. With
--hostile so many other clients post grammars made to take long, one after the other, all of which have to be refused:
to be compared with a run without.

A target for the time between tokens, measured on a model of the 1B shape with --quantize int8 (coxswain-make-model):

    text-generation-launcher --model-id MODEL --quantize int8 --port 8080 [--target-itl-ms 120]
    bench/serve_load.py http://127.0.0.1:8080
"""
import argparse
import http.client
import json
import random
import threading
import time
import urllib.parse


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def doubled(keyword):
    """Each definition refers to the one before twice."""
    definitions = {f"d{i}": {keyword: [{"$ref": f"#/$defs/d{i - 1}"}] * 2} for i in range(1, 45)}
    return {"$defs": {"d0": {"type": "string"}, **definitions}, "$ref": "#/$defs/d44"}


HOSTILE = [{"guided_json": doubled("anyOf")}, {"guided_json": doubled("oneOf")},
           {"guided_json": {"enum": [f"{i}{'v' * 20}" for i in range(9000)]}},
           {"guided_json": {"type": "integer", "multipleOf": 1999, "minimum": 17, "maximum": 99999999999999}},
           {"guided_json": {"type": "string", "maxLength": 900, "not": {"pattern": "x"}, "pattern": "(a|b)*a(a|b){30}"}},
           {"guided_regex": r"\p{L}" * 2000}]


class Load:
    def __init__(self, options):
        self.options = options
        self.address = urllib.parse.urlsplit(options.url)
        self.lock = threading.Lock()
        self.next_request = 0
        self.first = []
        self.gaps = []
        self.n_tokens = 0
        self.failures = []
        self.n_refused = 0
        self.ended = threading.Event()

    def take(self):
        with self.lock:
            self.next_request += 1
            return self.next_request if self.next_request <= self.options.requests else None

    def client(self):
        while (number := self.take()) is not None:
            try:
                self.request(number)
            except (OSError, ValueError, http.client.HTTPException) as error:
                with self.lock:
                    self.failures.append(repr(error))

    def hostile_client(self):
        while not self.ended.is_set():
            for grammar in HOSTILE:
                connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=600)
                body = json.dumps({"model": self.options.model, "prompt": "a", "max_tokens": 1, **grammar})
                connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
                status = connection.getresponse().status
                connection.close()
                with self.lock:
                    self.n_refused += status == 400
                    if status != 400:
                        self.failures.append(f"{status} for a hostile grammar")

    def body(self, number):
        pick = random.Random(number)
        return json.dumps({
            "model": self.options.model, "stream": True, "n": self.options.n, "ignore_eos": True,
            "prompt": [pick.randrange(100, 1000) for _ in range(self.options.prompt_tokens)],
            "max_tokens": self.options.new_tokens, "temperature": 0})

    def request(self, number):
        connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=600)
        begin = time.monotonic()
        connection.request("POST", "/v1/completions", self.body(number), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise ValueError(f"{response.status}: {response.read()[:300]!r}")
        last = {}
        first = []
        gaps = []
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            now = time.monotonic()
            document = json.loads(line[6:])
            if "error" in document:
                raise ValueError(line)
            for choice in document.get("choices", []):
                if choice.get("finish_reason") and not choice.get("text"):
                    continue
                index = choice["index"]
                (gaps.append(now - last[index]) if index in last else first.append(now - begin))
                last[index] = now
        connection.close()
        with self.lock:
            self.first += first
            self.gaps += gaps
            self.n_tokens += self.options.new_tokens * len(first)

    def run(self):
        begin = time.monotonic()
        threads = [threading.Thread(target=self.client) for _ in range(self.options.clients)]
        hostile = [threading.Thread(target=self.hostile_client) for _ in range(self.options.hostile)]
        for thread in threads + hostile:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - begin
        self.ended.set()
        for thread in hostile:
            thread.join()
        return seconds


def counters(url, *names):
    """Of /metrics, sums over labels."""
    address = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    return [sum(float(line.split()[-1]) for line in lines if line.startswith(name)) for name in names]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--model", default="tgi")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--requests", type=int, default=96)
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--n", type=int, default=1)
    parser.add_argument("--hostile", type=int, default=0)
    load = Load(parser.parse_args())
    steps = ("tgi_itl_floor_steps_total", 'tgi_batch_inference_success{method="prefill"}')
    before = counters(load.options.url, *steps)
    seconds = load.run()
    floors, prompts = (now - then for now, then in zip(counters(load.options.url, *steps), before))
    figures = [f"{what} p50 {percentile(values, 0.5) * 1e3:.1f} p99 {percentile(values, 0.99) * 1e3:.1f} ms"
               for what, values in (("first token", load.first), ("gap", load.gaps))]
    print(f"{load.n_tokens / seconds:.1f} tokens/s, {', '.join(figures)}, {len(load.failures)} failed, {load.n_refused} hostile refused")
    if floors:
        print(f"{floors:.0f} of {prompts:.0f} steps with prompts had a floor above the target between tokens")
    for failure in load.failures[:3]:
        print(failure)
    return 1 if load.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
