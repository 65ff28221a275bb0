#!/usr/bin/env python3
"""Ratio of our tokenizer's speed to the reference library's, measured on the same texts in one run.

    bench/tokenizer.py BINARY TOKENIZER TEXT...

BINARY is coxswain-bench-tokenizer (release preset), TOKENIZER a tokenizer.json or a SentencePiece model.
Needs the Python package `tokenizers` (or `sentencepiece` for a model). One thread each, processor time, warm, best of three.
"""
import json
import os
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"


def best(run, rounds=3):
    seconds = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        result = run()
        seconds = min(seconds, time.process_time() - start)
    return seconds, result


def reference(path):
    """Functions (encode, decode) of the reference library."""
    if path.endswith(".json"):
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(path)
        return (lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
                lambda ids: tokenizer.decode(ids, skip_special_tokens=False))
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(path)
    return processor.encode, processor.decode


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    binary, path, *texts = sys.argv[1:]
    output = subprocess.run([binary, path, *texts], check=True, capture_output=True, text=True).stdout
    lines = [json.loads(line) for line in output.splitlines()]
    load_seconds, (encode, decode) = best(lambda: reference(path), 1)
    print(f"{path}: vocabulary {lines[0]['vocab_size']}, load {lines[0]['load_s'] * 1000:.0f} ms, worst of 30 "
          f"{lines[0]['load_worst_s'] * 1000:.0f} ms (reference {load_seconds * 1000:.0f} ms)")
    for line in lines[1:]:
        if "worst" in line:
            result = 20 * line["tokens"]  # bytes of the ids and offsets that are returned
            print(f"  2 MB of {line['worst']}: {line['encode_s'] * 1000:.0f} ms, {line['tokens']} tokens, "
                  f"heap {line['peak_bytes'] / line['bytes']:.1f} times the text; with offsets {result / line['bytes']:.1f} for the result "
                  f"and {(line['peak_bytes_with_offsets'] - result) / line['bytes']:.1f} beside it")
            continue
        text = open(line["text"], encoding="utf-8", newline="").read()
        encode_seconds, ids = best(lambda: encode(text))
        decode_seconds, _ = best(lambda: decode(ids))
        megabytes = line["bytes"] / 1e6
        same = "same number of tokens" if len(ids) == line["tokens"] else f"{line['tokens']} tokens, not {len(ids)}"
        print(f"  {os.path.basename(line['text'])}: encode {megabytes / line['encode_s']:.1f} MB/s, "
              f"{encode_seconds / line['encode_s']:.1f}x; decode {megabytes / line['decode_s']:.1f} MB/s, "
              f"{decode_seconds / line['decode_s']:.1f}x; {same}")


if __name__ == "__main__":
    main()
