"""Bad input, each with its exact answer, and the server as healthy afterwards as before."""

import json
import socket
import urllib.parse

import pytest
import requests

from demo import CONTEXT, MESSAGES, PROMPT, VOCABULARY

INVALID = "Input validation error: "
NOT_JSON = "Failed to parse the request body as JSON: "
INPUT = CONTEXT - 1


def native(text, kind="validation"):
    return {"error": text, "error_type": kind}


def openai(text, param, code=None, kind="validation"):
    if code is None:
        unsupported = "not supported yet" in text or "of another route" in text or text.startswith("Suffix is not")
        code = "unsupported_parameter" if unsupported else "invalid_value"
    return {"error": {"message": text, "type": "invalid_request_error", "param": param, "code": code}, "error_type": kind}


def overflow(text):
    return openai(text, "prompt", "context_length_exceeded", "context_length_exceeded")


@pytest.fixture(autouse=True)
def still_serves(server):
    """Whatever a test sent: one process each as before, healthy, and nothing held."""
    before = (server.shard_pid(), server.router_pid())
    yield
    assert server.is_healthy()
    assert (server.shard_pid(), server.router_pid()) == before


def send(server, path, text, headers=None):
    headers = {"Content-Type": "application/json", **(headers or {})}
    return requests.post(server.url + path, data=text, headers=headers, timeout=60)


PARAMETERS = [
    # best_of
    ({"best_of": 0, "do_sample": True}, "`best_of` must be > 0 and <= 2. Given: 0"),
    ({"best_of": 3, "do_sample": True}, "`best_of` must be > 0 and <= 2. Given: 3"),
    ({"best_of": 2}, "you must use sampling when `best_of` is > 1"),
    ({"best_of": 2, "do_sample": True, "seed": 1}, "`seed` must not be set when `best_of` > 1"),
    ({"best_of": -1}, "`best_of` must be an integer from 0 to 18446744073709551615. Given: -1"),
    # zeros
    ({"temperature": 0}, "`temperature` must be strictly positive"),
    ({"temperature": -1.5}, "`temperature` must be strictly positive"),
    ({"repetition_penalty": 0}, "`repetition_penalty` must be strictly positive"),
    ({"top_k": 0}, "`top_k` must be strictly positive"),
    ({"top_p": 0}, "`top_p` must be > 0.0 and < 1.0"),
    ({"top_p": 1.0}, "`top_p` must be > 0.0 and < 1.0"),
    ({"typical_p": 0.0}, "`typical_p` must be > 0.0 and < 1.0"),
    ({"xtc_threshold": 0}, "`xtc_threshold` must be > 0.0 and <= 1.0. Given: 0"),
    ({"typical_p": 1}, "`typical_p` must be > 0.0 and < 1.0"),
    ({"max_new_tokens": 0}, "`max_new_tokens` must be strictly positive"),
    ({"truncate": 0}, f"`truncate` must be strictly positive and less than {INPUT}. Given: 0"),
    # too much
    ({"frequency_penalty": 2.5}, "`frequency_penalty` must be >= -2.0 and <= 2.0"),
    ({"top_n_tokens": 6}, "`top_n_tokens` must be >= 0 and <= 5. Given: 6"),
    ({"truncate": CONTEXT}, f"`truncate` must be strictly positive and less than {INPUT}. Given: {CONTEXT}"),
    ({"truncate": 2**64 - 1}, f"`truncate` must be strictly positive and less than {INPUT}. Given: 18446744073709551615"),
    ({"stop": ["a", "b", "c", "d", "e"]}, "`stop` supports up to 4 stop sequences. Given: 5"),
    ({"stop": [""]}, "`stop` cannot have empty strings"),
    ({"stop": ["x" * 1025]}, "`stop` strings must have at most 1024 bytes. Given: 1025"),
    ({"max_new_tokens": 2**32}, "`max_new_tokens` must be an integer from 0 to 4294967295. Given: 4294967296"),
    ({"seed": 2**64}, "`seed` must be an integer from 0 to 18446744073709551615. Given: 18446744073709551616"),
    ({"top_k": 2**31}, "`top_k` must be an integer of 32 bits. Given: 2147483648"),
    ({"temperature": 1e39}, "`temperature` must be a finite number. Given: 1e+39"),
    # wrong types
    ({"temperature": "hot"}, "`temperature` must be a finite number. Given: a string"),
    ({"temperature": True}, "`temperature` must be a finite number. Given: a boolean"),
    ({"max_new_tokens": 1.5}, "`max_new_tokens` must be an integer from 0 to 4294967295. Given: 1.5"),
    ({"max_new_tokens": "8"}, "`max_new_tokens` must be an integer from 0 to 4294967295. Given: a string"),
    ({"max_new_tokens": -1}, "`max_new_tokens` must be an integer from 0 to 4294967295. Given: -1"),
    ({"do_sample": 1}, "`do_sample` must be a boolean. Given: 1"),
    ({"details": "yes"}, "`details` must be a boolean. Given: a string"),
    ({"stop": "."}, "`stop` must be an array of strings. Given: a string"),
    ({"stop": [1]}, "`stop` must be an array of strings. Given: an array with an integer"),
    ({"seed": -3}, "`seed` must be an integer from 0 to 18446744073709551615. Given: -3"),
    # not supported, so refused by name
    ({"mirostat": 2}, "`mirostat` is not supported yet, except as 0. Given: 2"),
    ({"adapter_id": "a"}, '`adapter_id` is not supported yet. Given: "a"'),
    ({"repeat_penalty": 1.1}, "`repeat_penalty` is a field of another route, not of this one, except as 1 or 1.0. Given: 1.1"),
    ({"json_schema": {}}, "`json_schema` is not supported yet. Given: an object"),
    # of other routes
    ({"max_tokens": 5}, "`max_tokens` is a field of another route, not of this one. Given: 5"),
    # forms of answers that are none
    ({"grammar": {"type": "json", "value": 7}}, "grammar is not supported"),
    ({"grammar": {"type": "regex", "value": 7}}, "`grammar.value` must be a string. Given: 7"),
]


@pytest.mark.parametrize(("parameters", "text"), PARAMETERS, ids=[json.dumps(p)[:60] for p, _ in PARAMETERS])
def test_parameters(server, parameters, text):
    n_prompt = len(server.post("/tokenize", {"inputs": PROMPT}).json())
    for path in ("/generate", "/generate_stream", "/"):
        if path == "/generate_stream" and "best_of" in parameters and parameters["best_of"] >= 0:
            continue  # refused for another reason there
        response = server.post(path, {"inputs": PROMPT, "parameters": parameters})
        assert (response.status_code, response.json()) == (422, native(INVALID + text.replace("{n}", str(n_prompt)))), path
        assert response.headers["content-type"] == "application/json"


def broken(reason):
    return native(NOT_JSON + reason, "invalid_json")


DOCUMENTS = [
    ("{", 400, broken("incomplete JSON at line 1 column 2")),
    ("", 400, broken("incomplete JSON at line 1 column 1")),
    ('{"inputs": "a",}', 400, broken("syntax error at line 1 column 16")),
    ("{'inputs': 'a'}", 400, broken("syntax error at line 1 column 2")),
    ('{"inputs": "a"} x', 400, broken("extra data at line 1 column 17")),
    ('{"inputs": "a", "parameters": {"temperature": NaN}}', 400, broken("syntax error at line 1 column 47")),
    ('{"inputs": "a", "parameters": {"temperature": 1e400}}', 400, broken("number out of range at line 1 column 52")),
    ('{"inputs": "a", "parameters": {"temperature": 01}}', 400, broken("syntax error at line 1 column 48")),
    ('{"inputs": "\\ud800"}', 400, broken("syntax error at line 1 column 19")),
    (b'{"inputs": "\xff"}', 400, broken("syntax error at line 1 column 13")),
    (b'\xef\xbb\xbf{"inputs": "a"}', 400, broken("syntax error at line 1 column 1")),
    ('{"inputs": ' + "[" * 200_000, 400, broken("too deep at line 1 column 139")),
    ("[]", 422, native(INVALID + "the body must be an object. Given: an array")),
    ('"inputs"', 422, native(INVALID + "the body must be an object. Given: a string")),
    ("{}", 422, native(INVALID + "`inputs` is missing")),
    ('{"inputs": null}', 422, native(INVALID + "`inputs` is missing")),
    ('{"inputs": 5}', 422, native(INVALID + "`inputs` must be a string. Given: 5")),
    ('{"inputs": ["a"]}', 422, native(INVALID + "`inputs` must be a string. Given: an array")),
    ('{"inputs": ""}', 422, native(INVALID + "`inputs` cannot be empty")),
    ('{"inputs": "a", "parameters": []}', 422, native(INVALID + "`parameters` must be an object. Given: an array")),
    ('{"inputs": "a", "inputs": "b"}', 422, native(INVALID + 'repeated key "inputs" at line 1 column 24')),
    ('{"inputs": "a", "stream": 1}', 422, native(INVALID + "`stream` must be a boolean. Given: 1")),
]


@pytest.mark.parametrize(("text", "status", "answer"), DOCUMENTS, ids=[repr(t)[:50] for t, _, _ in DOCUMENTS])
def test_documents(server, text, status, answer):
    for path in ("/generate", "/generate_stream", "/"):
        response = send(server, path, text)
        assert (response.status_code, response.json()) == (status, answer), path


def test_broken_json_on_openai_routes(server):
    for path in ("/v1/chat/completions", "/v1/completions"):
        response = send(server, path, "{")
        assert response.status_code == 400
        assert response.json() == openai(NOT_JSON + "incomplete JSON at line 1 column 2", None, "invalid_json", "invalid_json")


CHATS = [
    ({}, "`messages` is missing", "messages"),
    ({"messages": []}, "`messages` cannot be empty", "messages"),
    ({"messages": "Hi"}, "`messages` must be an array. Given: a string", "messages"),
    ({"messages": ["Hi"]}, "`messages` must be an array of objects. Given: a string", "messages"),
    ({"messages": [{"content": "Hi"}]}, "messages[0]: `role` is missing", "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "`messages[0].content` is missing", "messages[0].content"),
    ({"messages": [{"role": "user", "content": 5}]},
     "`messages[0].content` must be a string or an array of parts. Given: an integer", "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}]},
     "`messages[0].content` must have parts of type `text`: `image_url` modality is not supported", "messages[0].content"),
    ({"max_tokens": 0}, "`max_tokens` must be >= 1. Given: 0", "max_tokens"),
    ({"max_completion_tokens": 0}, "`max_completion_tokens` must be >= 1. Given: 0", "max_completion_tokens"),
    ({"max_tokens": 5, "max_completion_tokens": 6},
     "`max_tokens` and `max_completion_tokens` must be equal if both are set. Given: 5 and 6", "max_completion_tokens"),
    ({"temperature": -1}, "`temperature` must be >= 0.0. Given: -1", "temperature"),
    ({"top_p": 1.1}, "`top_p` must be > 0.0 and <= 1.0. Given: 1.1", "top_p"),
    ({"presence_penalty": 3}, "`presence_penalty` must be >= -2.0 and <= 2.0. Given: 3", "presence_penalty"),
    ({"n": 0}, "`n` must be > 0 and <= 16. Given: 0", "n"),
    ({"n": 17}, "`n` must be > 0 and <= 16. Given: 17", "n"),
    ({"logprobs": True, "top_logprobs": 21}, "`top_logprobs` must be >= 0 and <= 20. Given: 21", "top_logprobs"),
    ({"top_logprobs": 1}, "`top_logprobs` needs `logprobs` to be true. Given: 1", "top_logprobs"),
    ({"logit_bias": {"99999": 1}}, f"`logit_bias` token ids must be < {VOCABULARY}. Given: 99999", "logit_bias"),
    ({"logit_bias": {"05": 1}}, "`logit_bias` must have token ids, as plain decimals, as keys. Given: 05", "logit_bias"),
    ({"tools": [{}]}, "`tools.0` must have a `function`. Given: none", "tools.0"),
    ({"tools": {}}, "`tools` must be an array. Given: an object", "tools"),
    ({"tools": [{"function": {"name": ""}}]}, '`tools.0.function.name` must be a string that is not empty. Given: ""', "tools.0.function.name"),
    ({"tool_choice": "required"}, "`tool_choice` must be none or auto where there are no `tools`. Given: required", "tool_choice"),
    ({"regex": "[0-9]+"}, '`regex` is not supported yet. Given: "[0-9]+"', "regex"),
    ({"thinking": {"type": "enabled"}}, "`thinking` is a field of another route, not of this one. Given: an object", "thinking"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {}}]}]},
     "a part of `messages[0].content`: `cache_control` is not supported yet. Given: an object", "messages[0].content.cache_control"),
    ({"stream_options": {"bar": 1}}, "`stream_options`: `bar` is not supported yet. Given: 1", "stream_options.bar"),
    ({"chat_template_kwargs": {"messages": [{"role": "user", "content": "Hi"}] * 3000}},
     "`chat_template_kwargs.messages` is not allowed: the server sets it", "chat_template_kwargs.messages"),
    ({"response_format": {"type": "xml"}}, "`response_format.type` must be text, json, json_object, json_schema or regex. Given: xml",
     "response_format.type"),
    ({"guided_grammar": "root ::= x"}, "`guided_grammar` is not valid: line 1, column 10: 'x' is not defined", "guided_grammar"),
    ({"reasoning_effort": 3}, "`reasoning_effort` must be a string. Given: 3", "reasoning_effort"),
    ({"model": "m" * 257}, "`model` must have at most 256 bytes. Given: 257", "model"),
]


@pytest.mark.parametrize(("change", "text", "param"), CHATS, ids=[json.dumps(c)[:60] for c, _, _ in CHATS])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_chats(server, change, text, param, stream):
    body = {"messages": MESSAGES, "stream": stream, **change}
    if not change:
        del body["messages"]
    response = server.post("/v1/chat/completions", body)
    assert (response.status_code, response.json()) == (400, openai(INVALID + text, param))


COMPLETIONS = [
    ({"prompt": None}, INVALID + "`prompt` is missing", "prompt"),
    ({"prompt": ""}, INVALID + "`prompt` cannot be empty", "prompt"),
    ({"prompt": []}, INVALID + "Empty array detected. Do not use an empty array for the prompt.", "prompt"),
    ({"prompt": [[]]}, INVALID + "Empty array detected. Do not use an empty array for the prompt.", "prompt"),
    ({"prompt": [1.5]}, INVALID + "`prompt` must have token ids that are integers from 0 to 2147483647. Given: 1.5", "prompt"),
    ({"prompt": [-1]}, INVALID + "`prompt` must have token ids that are integers from 0 to 2147483647. Given: -1", "prompt"),
    ({"prompt": [VOCABULARY]}, INVALID + f"`prompt` token ids must be < {VOCABULARY}. Given: {VOCABULARY}", "prompt"),
    ({"prompt": ["a"] * 5}, "Number of prompts exceeds the maximum allowed batch size of 4", "prompt"),
    ({"suffix": "b"}, "Suffix is not supported and can be achieved by preprocessing the prompt.", "suffix"),
    ({"echo": 1}, INVALID + "`echo` must be a boolean. Given: 1", "echo"),
    ({"logprobs": 21}, INVALID + "`logprobs` must be >= 0 and <= 20. Given: 21", "logprobs"),
    ({"max_tokens": 0}, INVALID + "`max_tokens` must be >= 1. Given: 0", "max_tokens"),
]


@pytest.mark.parametrize(("change", "text", "param"), COMPLETIONS, ids=[json.dumps(c)[:60] for c, _, _ in COMPLETIONS])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_completions(server, change, text, param, stream):
    response = server.post("/v1/completions", {"prompt": "a", "stream": stream, **change})
    assert (response.status_code, response.json()) == (400, openai(text, param))


MAXIMUM = f"This model's maximum context length is {CONTEXT} tokens, at most {INPUT} of them in the prompt. Given: "


class TestPromptLength:
    def ids(self, n):
        return [10] * n

    @pytest.mark.parametrize("n", [CONTEXT - 2, CONTEXT - 1])
    def test_fits(self, server, n):
        response = server.post("/v1/completions", {"prompt": self.ids(n), "max_tokens": CONTEXT - n})
        assert response.status_code == 200 and response.json()["usage"]["prompt_tokens"] == n

    def test_one_token_too_many_in_all(self, server):
        response = server.post("/v1/completions", {"prompt": self.ids(CONTEXT - 24), "max_tokens": 25})
        text = f"{MAXIMUM}{CONTEXT - 24} tokens in `prompt` and 25 in `max_tokens` (context_length_exceeded: `inputs` tokens + `max_new_tokens` must be <= {CONTEXT})"
        assert (response.status_code, response.json()) == (400, overflow(text))

    def test_one_prompt_token_too_many(self, server):
        response = server.post("/v1/completions", {"prompt": self.ids(CONTEXT)})
        text = f"{MAXIMUM}{CONTEXT} tokens in `prompt` (context_length_exceeded: `inputs` must have less than {INPUT} tokens)"
        assert (response.status_code, response.json()) == (400, overflow(text))

    def test_more_new_tokens_than_room_end_at_the_room(self, server):
        tail = server.post("/generate", {"inputs": "fox " * 5_000, "parameters": {"max_new_tokens": 2**32 - 1, "truncate": CONTEXT - 1024,
                                                                                 "details": True}})
        assert tail.status_code == 200, tail.text
        details = tail.json()["details"]
        assert details["finish_reason"] == "eos_token" or details["generated_tokens"] == 1024
        refused = server.post("/generate", {"inputs": "fox " * 5_000, "parameters": {"max_new_tokens": 2048, "truncate": CONTEXT - 1023}})
        text = f"`inputs` tokens + `max_new_tokens` must be <= {CONTEXT}. Given: {CONTEXT - 1023} `inputs` tokens and 2048 `max_new_tokens`"
        assert (refused.status_code, refused.json()) == (422, native(INVALID + text))

    def test_far_too_long_text(self, server):
        response = server.post("/generate", {"inputs": "fox " * 100_000, "parameters": {"max_new_tokens": 1}})
        text = f"`inputs` tokens + `max_new_tokens` must be <= {CONTEXT}. Given: at least {CONTEXT + 1} `inputs` tokens and 1 `max_new_tokens`"
        assert (response.status_code, response.json()) == (422, native(INVALID + text))

    def test_truncate_lets_it_in(self, server):
        response = server.post("/generate", {"inputs": "fox " * 5_000, "parameters": {"max_new_tokens": 1, "truncate": 1000}})
        assert response.status_code == 200 and response.headers["x-prompt-tokens"] == "1000"


class TestHttp:
    def test_content_type(self, server):
        for content_type in ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"):
            response = send(server, "/generate", '{"inputs": "a"}', {"Content-Type": content_type})
            assert response.status_code == 415, content_type
            assert response.json() == native("Expected request with `Content-Type: application/json`", "unsupported_media_type")

    def test_content_encoding(self, server):
        response = send(server, "/generate", '{"inputs": "a"}', {"Content-Encoding": "gzip"})
        assert (response.status_code, response.json()) == (
            415, native("Content-Encoding must be identity or absent", "unsupported_media_type"))

    def test_what_old_clients_and_proxies_send(self, server):
        answer = self.raw(server, b"\r\nGET https://a/health HTTP/1.1\r\nHost: a\r\nContent-Encoding:\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ")

    def test_an_unknown_path_names_the_nearest(self, server):
        for path, nearest in (("/v1/chat/completion", "/v1/chat/completions"), ("/v1/completion", "/v1/completions"), ("/v1/model", "/v1/models")):
            response = send(server, path, "{}")
            assert response.status_code == 404
            error = response.json()["error"]
            assert (error if isinstance(error, str) else error["message"]) == f"there is no such path; the nearest is {nearest}"

    def test_body_too_large(self, server):
        response = send(server, "/generate", json.dumps({"inputs": "a" * 2_000_000}))
        assert (response.status_code, response.json()) == (413, native(
            "the body must have at most 2000000 bytes. Given: 2000014", "payload_too_large"))

    def raw(self, server, data):
        address = urllib.parse.urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
            connection.sendall(data)
            answer = b""
            while (part := connection.recv(65536)):
                answer += part
        return answer

    @pytest.mark.parametrize(("head", "text"), [
        (b"POST /generate HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
         "Content-Length and Transfer-Encoding exclude each other"),
        (b"POST /generate HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n", "there are two lengths"),
        (b"POST /generate HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", "Content-Length is malformed"),
        (b"POST /generate HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 2\r\n\r\n{}", "there are two Host headers"),
        (b"GET /health HTTP/1.1\r\nHost : a\r\n\r\n", "a header line is not `name: value`"),
        (b"GET /health HTTP/1.1\r\n\r\n", "the Host header is missing"),
        (b"GET /health HTTP/1.1\nHost: a\n\n", "LF without CR"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "only HTTP/1.1 and HTTP/1.0 are spoken here"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "this is not an HTTP/1.1 request"),
    ], ids=["length and chunked", "two lengths", "negative length", "two hosts", "blank before colon", "no host", "bare LF", "HTTP/2", "TLS hello"])
    def test_framing_in_doubt_closes(self, server, head, text):
        self.check(self.raw(server, head), 400, text, "bad_request")

    def test_long_header(self, server):
        answer = self.raw(server, b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 9000 + b"\r\n\r\n")
        self.check(answer, 431, "a header line is longer than 8192 bytes", "headers_too_large")

    def test_header_bombs(self, server):
        many = self.raw(server, b"GET /health HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 8_000 + b"\r\n")
        self.check(many, 431, "there are more than 100 headers", "headers_too_large")
        large = self.raw(server, b"GET /health HTTP/1.1\r\nHost: a\r\n" + (b"X: " + b"y" * 8000 + b"\r\n") * 10 + b"\r\n")
        self.check(large, 431, "the headers are larger than 65536 bytes", "headers_too_large")

    def test_long_path(self, server):
        answer = self.raw(server, b"GET /" + b"y" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        self.check(answer, 414, "the request line is longer than 8192 bytes", "uri_too_long")

    def check(self, answer, status, text, kind):
        head, body = answer.split(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status) and b"\r\nconnection: close" in head
        assert json.loads(body) == native(text, kind)
