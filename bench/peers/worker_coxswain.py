#!/usr/bin/env python3
"""worker_coxswain.py LIBCOXSWAIN.SO MODEL QUANTIZE THREADS [ISA]: this project's engine, through its C API."""
import ctypes
import pathlib
import sys
from ctypes import POINTER, byref, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

import rows

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
import c_api  # noqa: E402


class ModelOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("dtype", c_char_p), ("quantize", c_char_p), ("kv_dtype", c_char_p),
        ("kv_bytes", c_uint64), ("memory_budget_bytes", c_uint64), ("n_threads", c_uint32),
        ("total_tokens_max", c_uint32), ("prefill_tokens_max", c_uint32), ("batch_size_max", c_uint32),
        ("draft_tokens_max", c_uint32), ("top_tokens_max", c_uint32),
        ("isa", c_char_p),
    ]


class Engine:
    def __init__(self, library_path, model_path, quantize, n_threads, isa):
        self.api = c_api.Library(library_path)
        self.library = self.api.library
        self.library.coxswain_model_options_init.argtypes = [c_void_p, c_size_t]
        self.library.coxswain_prompt_of_ids.argtypes = [POINTER(c_int32), c_size_t, POINTER(c_void_p), POINTER(c_void_p)]
        options = ModelOptions()
        self.library.coxswain_model_options_init(byref(options), ctypes.sizeof(options))
        options.quantize = quantize.encode() or None
        options.n_threads = n_threads
        options.isa = isa.encode() or None
        options.kv_bytes = 1 << 30
        options.batch_size_max = 64
        self.model, self.engine = c_void_p(), c_void_p()
        self.api.call("open", model_path.encode(), byref(options), byref(self.model))
        self.api.call("start", self.model, None, byref(self.engine))

    def enqueue(self, ids, n_new):
        prompt = c_void_p()
        self.api.call("prompt_of_ids", (c_int32 * len(ids))(*ids), len(ids), byref(prompt))
        request = c_api.Request()
        self.library.coxswain_request_init(byref(request), ctypes.sizeof(request))
        request.prompt, request.max_new_tokens, request.ignore_eos = prompt, n_new, 1
        request_id = c_uint64()
        self.api.call("enqueue", self.engine, byref(request), byref(request_id))
        self.library.coxswain_prompt_free(prompt)
        return request_id

    def generate(self, prompts, n_new):
        response = c_api.Response()
        self.library.coxswain_response_init(byref(response), ctypes.sizeof(response))
        for request_id in [self.enqueue(ids, n_new) for ids in prompts]:
            done = False
            while not done:
                self.api.call("await", self.engine, request_id, -1, byref(response))
                done = response.is_final
            if response.code != 0 or response.n_generated_tokens != n_new:
                raise RuntimeError(f"{response.n_generated_tokens} of {n_new} tokens: {response.error}")
        self.library.coxswain_response_clear(byref(response))


if __name__ == "__main__":
    library, model, quantize, threads, *isa = sys.argv[1:]
    rows.serve(Engine(library, model, quantize, int(threads), *(isa or [""])), seed=1)
