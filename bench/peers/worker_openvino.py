#!/usr/bin/env python3
"""worker_openvino.py MODEL THREADS: OpenVINO GenAI's continuous batching, in this process."""
import sys
import time

import numpy
import openvino
import openvino_genai

import rows


class Engine:
    def __init__(self, model_path, n_threads):
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size = 1  # GB
        scheduler.max_num_seqs = 64
        self.pipeline = openvino_genai.ContinuousBatchingPipeline(
            model_path, scheduler, "CPU", {"INFERENCE_NUM_THREADS": n_threads})
        self.next_id = 0

    def add(self, ids, n_new):
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = n_new
        config.ignore_eos = True
        config.do_sample = False
        self.next_id += 1
        return self.pipeline.add_request(self.next_id, openvino.Tensor(numpy.array([ids], dtype=numpy.int64)), config)

    def generate(self, prompts, n_new):
        handles = [self.add(ids, n_new) for ids in prompts]
        while self.pipeline.has_non_finished_requests():
            self.pipeline.step()
        for handle in handles:
            n_tokens = sum(len(output.generated_ids) for outputs in handle.read_all() for output in [outputs])
            if n_tokens != n_new:
                raise RuntimeError(f"{n_tokens} of {n_new} tokens")

    def clients(self, prompts, n_clients, n_requests=48, n_prompt=128, n_new=64):
        """So many clients, each with one request after the other."""
        running, first, gaps, n_tokens, n_started = {}, [], [], 0, 0
        begin = time.monotonic()
        while n_started < n_requests or running:
            while len(running) < n_clients and n_started < n_requests:
                n_started += 1
                running[n_started] = [self.add(prompts.ids(n_prompt), n_new), time.monotonic(), None]
            self.pipeline.step()
            now = time.monotonic()
            for number, (handle, added, last) in list(running.items()):
                while handle.can_read():
                    n_tokens += sum(len(output.generated_ids) for output in handle.read().values())
                    (gaps.append(now - last) if last else first.append(now - added))
                    last = now
                running[number][2] = last
                if handle.get_status() != openvino_genai.GenerationStatus.RUNNING:
                    del running[number]
        seconds = time.monotonic() - begin
        if n_tokens != n_requests * n_new:
            raise RuntimeError(f"{n_tokens} of {n_requests * n_new} tokens")
        return {"tokens_per_s": n_tokens / seconds, "first_ms": 1e3 * sorted(first)[len(first) // 2],
                "gap_p99_ms": 1e3 * sorted(gaps)[int(0.99 * len(gaps))]}


if __name__ == "__main__":
    rows.serve(Engine(sys.argv[1], int(sys.argv[2])), seed=2)
