#!/usr/bin/env python3
"""worker_ctranslate2.py MODEL COMPUTE_TYPE THREADS: CTranslate2, in this process."""
import json
import pathlib
import sys

import ctranslate2

import rows


class Engine:
    def __init__(self, model_path, compute_type, n_threads):
        self.generator = ctranslate2.Generator(
            model_path, device="cpu", compute_type=compute_type, intra_threads=n_threads, inter_threads=1)
        self.vocabulary = json.loads((pathlib.Path(model_path) / "vocabulary.json").read_text())

    def generate(self, prompts, n_new):
        results = self.generator.generate_batch(
            [[self.vocabulary[i] for i in ids] for ids in prompts], max_length=n_new, min_length=n_new,
            include_prompt_in_result=False, max_batch_size=len(prompts), sampling_topk=1)
        for result in results:
            if len(result.sequences_ids[0]) != n_new:
                raise RuntimeError(f"{len(result.sequences_ids[0])} of {n_new} tokens")


if __name__ == "__main__":
    rows.serve(Engine(sys.argv[1], sys.argv[2], int(sys.argv[3])), seed=3)
