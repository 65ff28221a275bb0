#!/usr/bin/env python3
"""Compiling JSON schemas and filling masks: ours beside other engines, on the same schemas, answers and tokens in one run.

    bench/grammar.py BINARY TOKENIZER SCHEMAS [--engines xgrammar,llguidance] [--limit N]

BINARY is coxswain-bench-grammar (release preset), TOKENIZER a byte-level tokenizer.json, SCHEMAS lines of JSON with `schema` and
`tests` (each {"valid", "data"}), gzip allowed. Needs the packages `tokenizers` and those of the engines (xgrammar torch, too, for
which Debian's python3-torch does; llguidance `transformers`). One thread each, its time on the processor, every schema compiled anew. Answers are the valid instances, members in the order of their schema; an engine is
timed on the schemas and tokens that it takes.
"""
import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time

from tokenizers import Tokenizer


def byte_alphabet():
    """The characters that byte-level vocabularies write for bytes (GPT-2)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}


def token_bytes(tokenizer):
    alphabet = byte_alphabet()
    added = tokenizer.get_added_tokens_decoder()
    tokens = [b""] * tokenizer.get_vocab_size()
    for text, token in tokenizer.get_vocab().items():
        if token not in added:
            tokens[token] = bytes(alphabet[c] for c in text)
    return tokens


def in_order_of(schema, value):
    """`value` with the members that the schema names first, in its order."""
    if isinstance(value, list):
        items = schema.get("items") if isinstance(schema, dict) else None
        return [in_order_of(items, item) for item in value]
    if not isinstance(value, dict):
        return value
    members = schema.get("properties", {}) if isinstance(schema, dict) else {}
    members = members if isinstance(members, dict) else {}
    names = [name for name in members if name in value] + [name for name in value if name not in members]
    return {name: in_order_of(members.get(name), value[name]) for name in names}


def summary(times):
    times = sorted(times)
    if not times:
        return {}
    return {"n": len(times), "p50": times[len(times) // 2], "p99": times[int(0.99 * (len(times) - 1))], "max": times[-1]}


def run_peer(make, cases):
    """Times of an engine: make(schema) gives an object with mask() and advance(id), or raises."""
    compile_times, mask_times, counts = [], [], {"schemas": 0, "refused": 0, "answers": 0, "followed": 0}
    for case in cases:
        counts["schemas"] += 1
        begin = time.thread_time()
        try:
            start = make(case["schema"])
        except Exception:  # noqa: BLE001: whatever an engine says instead of taking it
            counts["refused"] += 1
            continue
        compile_times.append((time.thread_time() - begin) * 1e6)
        for answer in case["answers"]:
            counts["answers"] += 1
            walker = start()
            for token in answer:
                begin = time.thread_time()
                walker.mask()
                mask_times.append((time.thread_time() - begin) * 1e6)
                if not walker.advance(token):
                    break
            else:
                counts["followed"] += 1
    return {"compile": summary(compile_times), "mask": summary(mask_times), "taken": counts}


def xgrammar_engine(tokens, end):
    import xgrammar

    info = xgrammar.TokenizerInfo(tokens, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[end])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    bitmask = xgrammar.allocate_token_bitmask(1, info.vocab_size)

    class Walker:
        def __init__(self, compiled):
            self.matcher = xgrammar.GrammarMatcher(compiled)

        def mask(self):
            self.matcher.fill_next_token_bitmask(bitmask)

        def advance(self, token):
            return self.matcher.accept_token(token)

    def make(schema):
        compiled = compiler.compile_json_schema(json.dumps(schema))
        return lambda: Walker(compiled)

    return make


def llguidance_engine(path, end):
    import llguidance
    import llguidance.hf
    import llguidance.numpy
    from transformers import PreTrainedTokenizerFast

    tokenizer = llguidance.hf.from_tokenizer(PreTrainedTokenizerFast(tokenizer_file=path), eos_token=end)
    bitmask = llguidance.numpy.allocate_token_bitmask(1, tokenizer.vocab_size)

    class Walker:
        def __init__(self, grammar):
            self.matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0)
            if self.matcher.is_error():
                raise ValueError(self.matcher.get_error())

        def mask(self):
            llguidance.numpy.fill_next_token_bitmask(self.matcher, bitmask, 0)

        def advance(self, token):
            return self.matcher.consume_token(token)

    def make(schema):
        grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema))
        first = [Walker(grammar)]
        return lambda: first.pop() if first else Walker(grammar)

    return make


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("tokenizer")
    parser.add_argument("schemas")
    parser.add_argument("--engines", default="")
    parser.add_argument("--limit", type=int, default=None)
    args = parser.parse_args()

    tokenizer = Tokenizer.from_file(args.tokenizer)
    tokens = token_bytes(tokenizer)
    end = max(tokenizer.get_added_tokens_decoder(), default=0)
    opened = gzip.open if args.schemas.endswith(".gz") else open
    cases = []
    with opened(args.schemas, "rt") as lines:
        for line in list(lines)[:args.limit]:
            case = json.loads(line)
            answers = [json.dumps(in_order_of(case["schema"], test["data"]), ensure_ascii=False)
                       for test in case["tests"] if test["valid"]]
            cases.append({"schema": case["schema"],
                          "answers": [tokenizer.encode(text, add_special_tokens=False).ids for text in answers]})

    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/vocabulary", "w", encoding="ascii") as out:
            out.writelines(token.hex() + "\n" for token in tokens)
        with open(folder + "/cases", "w", encoding="utf-8") as out:
            out.writelines(json.dumps(case) + "\n" for case in cases)
        ours = {}
        printed = subprocess.run([args.binary, folder + "/vocabulary", folder + "/cases"],
                                 check=True, stdout=subprocess.PIPE, text=True).stdout
        for line in printed.splitlines():
            row = json.loads(line)
            ours[row.pop("what")] = row
    results = {"coxswain": ours}
    for engine in filter(None, args.engines.split(",")):
        make = xgrammar_engine(tokens, end) if engine == "xgrammar" else llguidance_engine(args.tokenizer, end)
        results[engine] = run_peer(make, cases)

    for engine, result in results.items():
        for what in ("compile", "mask"):
            row = result.get(what, {})
            figures = "  ".join(f"{name} {row[name]:10.1f} us" for name in ("p50", "p99", "max") if name in row)
            print(f"{engine:12} {what:8} {figures}  n {row.get('n', 0)}")
        print(f"{engine:12} {'taken':8} {result.get('taken')}")
    for engine in list(results)[1:]:
        for what in ("compile", "mask"):
            for figure in ("p50", "p99"):
                ratio = results[engine][what][figure] / ours[what][figure]
                print(f"{engine} / coxswain, {what} {figure}: {ratio:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
