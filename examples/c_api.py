#!/usr/bin/env python3
"""Asks a model a question through the C API (coxswain/coxswain.h) and prints the answer as it comes.

    c_api.py LIBCOXSWAIN.SO MODEL_FOLDER [QUESTION]
"""
import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p


class Request(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("prompt", c_void_p), ("max_new_tokens", c_uint32), ("do_sample", c_int32),
        ("temperature", c_float), ("top_k", c_int32), ("top_p", c_float), ("typical_p", c_float), ("min_p", c_float),
        ("repetition_penalty", c_float), ("frequency_penalty", c_float), ("presence_penalty", c_float),
        ("seed", c_uint64), ("stop", POINTER(c_char_p)), ("n_stop", c_size_t), ("ignore_eos", c_int32),
        ("priority", c_int32), ("queue_timeout_ms", c_uint64), ("timeout_ms", c_uint64), ("cache_salt", c_char_p),
    ]


class Response(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("id", c_uint64), ("text", c_void_p), ("text_bytes", c_size_t),
        ("tokens", POINTER(c_int32)), ("logprobs", POINTER(c_float)), ("n_tokens", c_size_t), ("is_final", c_int32),
        ("code", c_int32), ("error", c_char_p), ("finish", c_int32), ("n_prompt_tokens", c_uint32),
        ("n_cached_prompt_tokens", c_uint32), ("n_generated_tokens", c_uint32), ("owned", c_void_p),
    ]


class Failure(Exception):
    pass


class Library:
    """The functions of the library; one that fails raises Failure with its sentence."""

    ARGUMENTS = {
        "open": [c_char_p, c_void_p, POINTER(c_void_p)],
        "chat": [c_void_p, POINTER(c_char_p), POINTER(c_char_p), c_size_t, POINTER(c_void_p)],
        "start": [c_void_p, c_void_p, POINTER(c_void_p)],
        "enqueue": [c_void_p, POINTER(Request), POINTER(c_uint64)],
        "await": [c_void_p, c_uint64, c_int64, POINTER(Response)],
    }

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        for name in ("request_init", "response_init"):
            getattr(self.library, f"coxswain_{name}").argtypes = [c_void_p, c_size_t]
        for name in ("prompt_free", "close", "model_close", "response_clear", "text_free"):
            function = getattr(self.library, f"coxswain_{name}")
            function.argtypes, function.restype = [c_void_p], None
        for name, arguments in self.ARGUMENTS.items():
            getattr(self.library, f"coxswain_{name}").argtypes = [*arguments, POINTER(c_void_p)]

    def call(self, name, *arguments):
        error = c_void_p()
        if getattr(self.library, f"coxswain_{name}")(*arguments, byref(error)) != 0:
            sentence = ctypes.string_at(error).decode()
            self.library.coxswain_text_free(error)
            raise Failure(sentence)


def stream(lib, model, engine, question):
    """The pieces of the answer's text."""
    prompt, request, request_id, piece = c_void_p(), Request(), c_uint64(), Response()
    roles, contents = (c_char_p * 1)(b"user"), (c_char_p * 1)(question.encode())
    lib.call("chat", model, roles, contents, 1, byref(prompt))
    lib.library.coxswain_request_init(byref(request), ctypes.sizeof(request))
    request.prompt, request.max_new_tokens = prompt, 64
    lib.call("enqueue", engine, byref(request), byref(request_id))
    lib.library.coxswain_prompt_free(prompt)
    lib.library.coxswain_response_init(byref(piece), ctypes.sizeof(piece))
    while not piece.is_final:
        lib.call("await", engine, request_id, -1, byref(piece))
        yield ctypes.string_at(piece.text, piece.text_bytes).decode()
    code, error = piece.code, piece.error.decode()
    lib.library.coxswain_response_clear(byref(piece))
    if code != 0:
        raise Failure(error)


def main():
    path, folder, *question = sys.argv[1:]
    lib, model, engine = Library(path), c_void_p(), c_void_p()
    lib.call("open", folder.encode(), None, byref(model))
    lib.call("start", model, None, byref(engine))
    for text in stream(lib, model, engine, question[0] if question else "What is 12 + 30?"):
        print(text, end="", flush=True)
    print()
    lib.library.coxswain_close(engine)
    lib.library.coxswain_model_close(model)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"error: {failure}")
