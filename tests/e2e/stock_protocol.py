"""Drives text-generation-server over generate.v3 the way a router of text-generation-inference does.

usage: stock_protocol.py BINARY MODEL_DIR PROTO_DIR

MODEL_DIR holds golden.json (greedy ids and log-probabilities of a few prompts). Needs grpcio and grpcio-tools. Checks the
start sequence, greedy answers with and without chunked prompts and joined batches, a grammar, filtering, a removed socket
file, a second server and a clean stop.
"""

import importlib
import json
import math
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import grpc
from grpc_tools import protoc

DEADLINE_S = 60
MAX_NEW_TOKENS = 40


def load_stubs(proto_dir, folder):
    code = protoc.main(["", f"-I{proto_dir}", f"--python_out={folder}", f"--grpc_python_out={folder}", "generate_v3.proto"])
    assert code == 0
    sys.path.insert(0, str(folder))
    return importlib.import_module("generate_v3_pb2"), importlib.import_module("generate_v3_pb2_grpc")


class Router:
    """Blocks are handed out like the router does: never block 0, slots for prompt + max_new - 1 positions."""

    def __init__(self, pb, stub):
        self.pb, self.stub = pb, stub
        info = stub.Info(pb.InfoRequest())
        assert not info.requires_padding and info.engine_version, info
        self.block_size = info.block_size
        self.next_block = 1

    def request(self, request_id, prompt, max_new, n_prompt, chunk_len=None):
        pb, positions = self.pb, n_prompt + max_new - 1
        n_blocks = math.ceil(positions / self.block_size)
        blocks = list(range(self.next_block, self.next_block + n_blocks))
        self.next_block += n_blocks
        slots = [b * self.block_size + i for b in blocks for i in range(self.block_size)][:positions]
        return pb.Request(
            id=request_id, inputs=prompt, input_chunks=pb.Input(chunks=[pb.InputChunk(text=prompt)]), truncate=200,
            add_special_tokens=True, blocks=blocks, slots=slots, chunk_len=chunk_len, prefill_logprobs=True,
            parameters=pb.NextTokenChooserParameters(temperature=1, top_p=1, typical_p=1, repetition_penalty=1),
            stopping_parameters=pb.StoppingCriteriaParameters(max_new_tokens=max_new))

    def batch(self, batch_id, requests):
        return self.pb.Batch(id=batch_id, requests=requests, size=len(requests))


def collect(answers, response):
    for generation in response.generations:
        answers.setdefault(generation.request_id, []).append(generation)


def same_as_golden(generations, golden):
    ids = [i for g in generations for i in g.tokens.ids]
    logprobs = [v for g in generations for v in g.tokens.logprobs]
    assert ids == golden["greedy_ids"][:MAX_NEW_TOKENS], (ids, golden["greedy_ids"])  # shorter where the model stops
    assert all(abs(a - b) < 1e-3 for a, b in zip(logprobs, golden["greedy_logprobs"]))
    prefill = generations[0].prefill_tokens
    assert list(prefill.ids) == golden["prompt_ids"] and math.isnan(prefill.logprobs[0])
    assert all(abs(a - b) < 1e-3 for a, b in zip(prefill.logprobs[1:], golden["prompt_logprobs"][1:]))
    text = "".join(t for g in generations for t, special in zip(g.tokens.texts, g.tokens.is_special) if not special)
    assert generations[-1].generated_text.text.strip() == text.strip(), (generations[-1].generated_text.text, text)


def check_generation(router, prompts):
    pb, stub, max_new, answers = router.pb, router.stub, MAX_NEW_TOKENS, {}
    first, others = prompts[0], prompts[1:]
    response = stub.Prefill(pb.PrefillRequest(batch=router.batch(1, [router.request(0, first["text"], max_new, len(first["prompt_ids"]))])))
    collect(answers, response)
    cached = response.batch
    for n, prompt in enumerate(others, start=1):  # joins the running batch, the prompt cut in two
        request = router.request(n, prompt["text"], max_new, len(prompt["prompt_ids"]), chunk_len=1)
        response = stub.Prefill(pb.PrefillRequest(batch=router.batch(n + 1, [request]), cached_batch=cached))
        collect(answers, response)
        assert response.batch.id == 1
        response = stub.Decode(pb.DecodeRequest(batches=[response.batch]))
        collect(answers, response)
        cached = response.batch
    live = set(range(len(prompts)))
    while True:
        done = {n for n in live if any(g.HasField("generated_text") for g in answers.get(n, []))}
        live -= done
        if not response.HasField("batch"):
            break
        cached = response.batch
        if done:
            cached = stub.FilterBatch(pb.FilterBatchRequest(batch_id=1, request_ids=sorted(live))).batch
            assert sorted(cached.request_ids) == sorted(live)
        response = stub.Decode(pb.DecodeRequest(batches=[cached]))
        collect(answers, response)
    assert not live
    for n, prompt in enumerate(prompts):
        same_as_golden(answers[n], prompt)
    print(f"{len(prompts)} prompts, {max_new} tokens each: as the reference")


def check_grammar(router, prompt):
    """As a regular expression, which is how such routers send every grammar."""
    pb, stub, answers = router.pb, router.stub, {}
    request = router.request(7, prompt["text"], MAX_NEW_TOKENS, len(prompt["prompt_ids"]))
    request.parameters.grammar, request.parameters.grammar_type = "(yes|no), [0-9]{3}!", pb.GRAMMAR_TYPE_REGEX
    response = stub.Prefill(pb.PrefillRequest(batch=router.batch(7, [request])))
    collect(answers, response)
    while response.HasField("batch"):
        response = stub.Decode(pb.DecodeRequest(batches=[response.batch]))
        collect(answers, response)
    text = answers[7][-1].generated_text.text
    assert re.fullmatch("(yes|no), [0-9]{3}!", text.strip()), text
    print(f"by a grammar: {text}")


def check_warmup(router):
    pb = router.pb
    request = router.request(0, "_test " * 100, 20, 100)
    request.ClearField("blocks")
    request.ClearField("slots")
    request.parameters.watermark = True
    answer = router.stub.Warmup(pb.WarmupRequest(batch=router.batch(0, [request, request]), max_prefill_tokens=256))
    assert answer.max_supported_total_tokens % router.block_size == 0 and answer.max_input_tokens == answer.max_total_tokens - 1
    print(f"warm-up: {answer.max_supported_total_tokens} tokens")


def check_health_generation(router):
    pb, top = router.pb, 2**64 - 1
    request = router.request(top, "liveness", 1, 1)
    request.blocks[:], request.slots[:], request.truncate, request.add_special_tokens = [0], [0], 1, False
    response = router.stub.Prefill(pb.PrefillRequest(batch=router.batch(top, [request])))
    assert response.generations[0].HasField("generated_text") and not response.HasField("batch")


def error_of(call, *arguments):
    try:
        call(*arguments)
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INTERNAL, error
        return error.details()
    raise AssertionError("no error")


def wait_for(condition):
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def main():
    binary, model_dir, proto_dir = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        pb, pb_grpc = load_stubs(proto_dir, pathlib.Path(folder))
        socket = pathlib.Path(folder) / "shard-0"
        command = [binary, "serve", model_dir, "--uds-path", str(socket)[:-2], "--dtype", "float32", "--memory-bytes-max", "800000000", "--logger-level", "WARN"]
        shard = subprocess.Popen(command)
        try:
            wait_for(socket.exists)
            options = [("grpc.use_local_subchannel_pool", 1)]
            stub = pb_grpc.TextGenerationServiceStub(grpc.insecure_channel(f"unix:{socket}", options))
            urls = stub.ServiceDiscovery(pb.ServiceDiscoveryRequest(), wait_for_ready=True, timeout=DEADLINE_S).urls
            assert list(urls) == [f"unix://{socket}"], urls
            stub.ClearCache(pb.ClearCacheRequest())
            router = Router(pb, stub)
            check_warmup(router)
            prompts = json.loads((pathlib.Path(model_dir) / "golden.json").read_text())["prompts"]
            check_generation(router, prompts)
            check_grammar(router, prompts[0])
            check_health_generation(router)
            stub.Health(pb.HealthRequest())
            assert error_of(stub.Decode, pb.DecodeRequest(batches=[pb.CachedBatch(id=9)])) == "Batch ID 9 not found in cache."
            assert error_of(stub.Decode, pb.DecodeRequest()) == "Must provide at least one batch"
            second = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
            assert second.returncode == 1 and "another server is running here" in second.stderr, second
            socket.unlink()
            wait_for(socket.exists)
            fresh = pb_grpc.TextGenerationServiceStub(grpc.insecure_channel(f"unix:{socket}", options))
            fresh.Health(pb.HealthRequest(), wait_for_ready=True, timeout=DEADLINE_S)
            shard.send_signal(signal.SIGTERM)
            assert shard.wait(DEADLINE_S) == 0
            assert not socket.exists() and not pathlib.Path(f"{socket}.lock").exists()
            print("passed")
        finally:
            shard.kill()
            shard.wait()


if __name__ == "__main__":
    main()
