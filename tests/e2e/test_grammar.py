"""Answers of a given form through the whole: texts that a Python check takes, whatever the model would rather have said."""

import concurrent.futures
import json
import re

import pytest

from demo import MESSAGES, PROMPT

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12, "pattern": "^[A-Za-z ]+$"},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "mood": {"enum": ["happy", "sad"]},
    },
    "required": ["name", "age", "mood"],
    "additionalProperties": False,
}
CHOICES = ["a red fox", "a blue bird"]
SEEDS = range(1, 7)


def is_person(text):
    value = json.loads(text)
    assert list(value) == ["name", "age", "mood"], text
    assert isinstance(value["name"], str) and re.fullmatch("[A-Za-z ]{1,12}", value["name"]), text
    assert type(value["age"]) is int and 0 <= value["age"] <= 120, text
    assert value["mood"] in ("happy", "sad"), text
    return value


def generate(server, grammar, **parameters):
    response = server.post("/generate", {"inputs": PROMPT, "parameters": {
        "max_new_tokens": 200, "details": True, "grammar": grammar, **parameters}})
    assert response.status_code == 200, response.text
    return response.json()


def chat(server, **members):
    response = server.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 200, **members})
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]


def of_schema(schema, name="form"):
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}


def test_native_json(server):
    for value in (PERSON, json.dumps(PERSON)):
        answer = generate(server, {"type": "json", "value": value})
        is_person(answer["generated_text"])
        assert answer["details"]["finish_reason"] == "eos_token"
    named = generate(server, {"type": "json_schema", "value": {"name": "person", "schema": PERSON}})
    assert named["generated_text"] == answer["generated_text"]  # greedy, of the same form


def test_native_json_when_sampling(server):
    texts = {generate(server, {"type": "json", "value": PERSON}, do_sample=True, temperature=1.5, seed=seed)["generated_text"] for seed in SEEDS}
    for text in texts:
        is_person(text)
    assert len(texts) > 1


def test_native_regex(server):
    pattern = r"[A-C][a-z]{2,6}: (\d{2}|none)!"
    for seed in SEEDS:
        answer = generate(server, {"type": "regex", "value": pattern}, do_sample=True, seed=seed)
        assert re.fullmatch(pattern, answer["generated_text"]), answer
        assert answer["details"]["finish_reason"] == "eos_token"


def test_an_answer_that_is_cut_is_a_beginning(server):
    whole = generate(server, {"type": "json", "value": PERSON})["generated_text"]
    cut = generate(server, {"type": "json", "value": PERSON}, max_new_tokens=5)
    assert cut["details"]["finish_reason"] == "length" and cut["details"]["generated_tokens"] == 5
    assert whole.startswith(cut["generated_text"]) and whole != cut["generated_text"]


def test_native_stream(server):
    grammar = {"type": "json", "value": PERSON}
    response = server.post("/generate_stream", {"inputs": PROMPT, "parameters": {"max_new_tokens": 200, "grammar": grammar}})
    assert response.status_code == 200, response.text
    documents = [json.loads(line[5:]) for line in response.text.splitlines() if line.startswith("data:")]
    text = "".join(d["token"]["text"] for d in documents if not d["token"]["special"])
    assert text == documents[-1]["generated_text"] == generate(server, grammar)["generated_text"]
    is_person(text)


def test_several_answers(server):
    response = server.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 200, "n": 3, "seed": 5, "response_format": of_schema(PERSON)})
    assert response.status_code == 200, response.text
    for choice in response.json()["choices"]:
        is_person(choice["message"]["content"])


def test_chat_json_object(server):
    """Any object: the model may go on for long, but what it says is the beginning of one at least."""
    choice = chat(server, response_format={"type": "json_object"}, temperature=0)
    content = choice["message"]["content"]
    assert content.lstrip().startswith("{")
    if choice["finish_reason"] == "stop":
        assert isinstance(json.loads(content), dict)


def test_chat_stream(server):
    body = {"messages": MESSAGES, "max_tokens": 200, "temperature": 0, "response_format": of_schema(PERSON)}
    whole = server.post("/v1/chat/completions", body).json()["choices"][0]
    response = server.post("/v1/chat/completions", {**body, "stream": True})
    chunks = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    assert "".join(c["choices"][0]["delta"]["content"] for c in chunks) == whole["message"]["content"]
    assert chunks[-1]["choices"][0]["finish_reason"] == whole["finish_reason"] == "stop"
    is_person(whole["message"]["content"])


@pytest.mark.parametrize("members", [{"guided_choice": CHOICES}, {"structured_outputs": {"choice": CHOICES}}], ids=["guided", "structured"])
def test_choices(server, members):
    contents = set()
    for seed in SEEDS:
        choice = chat(server, seed=seed, temperature=2, **members)
        assert choice["finish_reason"] == "stop"
        contents.add(choice["message"]["content"])
    assert contents <= set(CHOICES)


def test_completions(server):
    response = server.post("/v1/completions", {"prompt": [PROMPT, "The dog"], "max_tokens": 20, "guided_regex": "[0-9]{3}(-[0-9]{2})?"})
    assert response.status_code == 200, response.text
    for choice in response.json()["choices"]:
        assert re.fullmatch("[0-9]{3}(-[0-9]{2})?", choice["text"]) and choice["finish_reason"] == "stop"


@pytest.mark.parametrize("rules", ['root ::= sum (" and " sum)?\nsum ::= [0-9] "+" [0-9]',
                                   'start: sum [" and " sum]\nsum: DIGIT "+" DIGIT\nDIGIT: "0".."9"'], ids=["gbnf", "lark"])
def test_rules(server, rules):
    for members in ({"guided_grammar": rules}, {"structured_outputs": {"grammar": rules}}):
        choice = chat(server, **members)
        assert re.fullmatch(r"\d\+\d( and \d\+\d)?", choice["message"]["content"]) and choice["finish_reason"] == "stop"


def test_ignore_eos_ends_with_the_form(server):
    response = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 20, "guided_choice": CHOICES, "ignore_eos": True})
    choice = response.json()["choices"][0]
    assert choice["text"] in CHOICES and choice["finish_reason"] == "stop"


def test_different_grammars_at_once(server):
    """Each as alone: a grammar is its own request's, and those without one are left as they are."""
    pattern = r"(ab|cd){4,8}"
    wanted = [
        {"type": "json", "value": PERSON},
        {"type": "regex", "value": pattern},
        {"type": "json", "value": {"type": "array", "items": {"type": "integer", "minimum": 10, "maximum": 99}, "minItems": 3, "maxItems": 3}},
        None,
    ]
    alone = [generate(server, grammar, max_new_tokens=60)["generated_text"] for grammar in wanted]
    is_person(alone[0])
    assert re.fullmatch(pattern, alone[1])
    numbers = json.loads(alone[2])
    assert len(numbers) == 3 and all(type(n) is int and 10 <= n <= 99 for n in numbers)
    with concurrent.futures.ThreadPoolExecutor(len(wanted) * 3) as pool:
        together = list(pool.map(lambda grammar: generate(server, grammar, max_new_tokens=60)["generated_text"], wanted * 3))
    assert together == alone * 3


def test_a_recursive_schema(server):
    schema = {
        "$defs": {"tree": {"type": "object", "properties": {"v": {"enum": [1, 2]}, "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/tree"}]}},
                           "required": ["v", "next"], "additionalProperties": False}},
        "$ref": "#/$defs/tree",
    }
    choice = chat(server, response_format=of_schema(schema), temperature=0)
    if choice["finish_reason"] == "stop":
        tree = json.loads(choice["message"]["content"])
        while tree is not None:
            assert list(tree) == ["v", "next"] and tree["v"] in (1, 2)
            tree = tree["next"]
    else:
        assert re.match(r'\s*\{\s*"v"', choice["message"]["content"])


REFUSED = [
    ({"type": "regex", "value": "a(?=b)"}, "look-around"),
    ({"type": "regex", "value": "(a"}, "grammar is not valid: "),
    ({"type": "json", "value": {"properties": {"a": {"type": "array", "uniqueItems": True}}}}, "/properties/a/uniqueItems"),
    ({"type": "json", "value": {"$ref": "https://example.com/schema"}}, "/$ref"),
    ({"type": "json", "value": "{"}, "grammar is not valid: "),
    ({"type": "ebnf", "value": "a"}, "`grammar.type` must be "),
]


@pytest.mark.parametrize(("grammar", "part"), REFUSED, ids=[part for _, part in REFUSED])
def test_refusals(server, grammar, part):
    for path in ("/generate", "/generate_stream", "/"):
        response = server.post(path, {"inputs": PROMPT, "parameters": {"grammar": grammar}})
        assert response.status_code == 422, response.text
        assert response.json()["error_type"] == "validation" and part in response.json()["error"], response.text
    assert generate(server, {"type": "regex", "value": "ab"})["generated_text"] == "ab"  # nobody else is hurt


def doubled(keyword, times=44):
    """A schema whose definitions refer to the one before twice."""
    definitions = {"d0": {"type": "string"}}
    for i in range(times):
        definitions[f"d{i + 1}"] = {keyword: [{"$ref": f"#/$defs/d{i}"}] * 2}
    return {"$defs": definitions, "$ref": f"#/$defs/d{times}"}


def schema_of(value):
    return {"type": "json", "value": value}


ENDLESS = {"$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/b"}, "minItems": 1},
                     "b": {"type": "array", "items": {"$ref": "#/$defs/a"}, "minItems": 1}}, "$ref": "#/$defs/a"}
HOSTILE = [
    (schema_of(doubled("anyOf")), "more than 256 alternatives"),
    (schema_of(doubled("oneOf")), "more than 200000 merges"),
    (schema_of({"$ref": "#"}), "refers to itself for the same value"),
    (schema_of(ENDLESS), "allows no text at all"),
    (schema_of({"enum": [f"{i}{'v' * 20}" for i in range(9000)]}), "more than 200000 states"),
    (schema_of({"type": "integer", "multipleOf": 1999, "minimum": 17, "maximum": 99999999999999}), "more than 200000 states"),
    (schema_of({"type": "string", "minLength": 7, "maxLength": 900, "not": {"pattern": "x"}, "pattern": "(a|b)*a(a|b){30}"}),
     "the restrictions of the text need more than"),
    ({"type": "regex", "value": r"\p{L}" * 2000}, "more than 1000000 ranges of characters"),
    ({"type": "regex", "value": "(" * 4000 + "a" + ")" * 4000}, "groups nest more than 200 deep"),
    ({"type": "regex", "value": "a" * (10 << 20)}, "`grammar.value` must have at most 262144 bytes. Given: 10485760"),
]


def test_hostile_grammars_beside_streams(launch):
    """Each is refused by name, again and again, while others are answered as if there were none."""
    server = launch("--payload-limit", "20000000").wait_ready()

    def text(seed):
        grammar = schema_of(PERSON) if seed % 2 else None
        response = server.post("/generate_stream", {"inputs": PROMPT, "parameters": {
            "max_new_tokens": 120, "do_sample": True, "seed": seed, "grammar": grammar}})
        assert response.status_code == 200, response.text
        return [json.loads(line[5:]) for line in response.text.splitlines() if line.startswith("data:")][-1]["generated_text"]

    def refuse(hostile):
        grammar, part = hostile
        response = server.post("/generate_stream", {"inputs": PROMPT, "parameters": {"grammar": grammar}})
        assert response.status_code == 422, response.text[:300]
        assert response.json()["error_type"] == "validation" and part in response.json()["error"], response.text[:300]

    alone = [text(seed) for seed in SEEDS]
    with concurrent.futures.ThreadPoolExecutor(4) as clients, concurrent.futures.ThreadPoolExecutor(len(SEEDS)) as streams:
        refused = [clients.submit(refuse, hostile) for hostile in HOSTILE * 2]
        together = []
        while not together or not all(f.done() for f in refused):
            together += streams.map(text, SEEDS)
        for one in refused:
            one.result()
    assert together == alone * (len(together) // len(alone))
    assert server.stop() == 0, server.log()


def test_refusals_below_v1(server):
    schema = {"type": "object", "properties": {"a": {"type": "colour"}}}
    response = server.post("/v1/chat/completions", {"messages": MESSAGES, "response_format": of_schema(schema)})
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (400, "invalid_value", "response_format.json_schema.schema"), response.text
    assert "/properties/a/type" in error["message"]


STUCK = {"max_tokens": 4, "allowed_token_ids": [5]}
STUCK_BODIES = [
    ("/v1/completions", {**STUCK, "prompt": "a", "guided_choice": ["b"]}),
    ("/v1/chat/completions", {**STUCK, "messages": MESSAGES, "guided_choice": ["b"]}),
    ("/v1/responses", {"input": "a", "allowed_token_ids": [5], "text": {"format": {"type": "json_object"}}}),
    ("/api/generate", {"model": "m", "prompt": "a", "format": "json", "options": {"allowed_token_ids": [5]}}),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("path", "body"), STUCK_BODIES, ids=[path for path, _ in STUCK_BODIES])
def test_allowed_tokens_that_the_form_does_not_let_through(server, path, body, stream):
    """The request's fault, though the model alone finds it out."""
    response = server.post(path, {**body, "stream": stream})
    assert response.status_code == 400, response.text
    if path == "/api/generate":
        assert "no token here" in response.json()["error"], response.text
    else:
        error = response.json()["error"]
        assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "invalid_value", "allowed_token_ids"), response.text


def test_it_can_be_switched_off(launch):
    server = launch("--disable-grammar-support").wait_ready()
    response = server.post("/generate", {"inputs": PROMPT, "parameters": {"grammar": {"type": "regex", "value": "a"}}})
    assert (response.status_code, response.json()) == (422, {
        "error": "Input validation error: grammar is not supported", "error_type": "validation"})
    response = server.post("/v1/chat/completions", {"messages": MESSAGES, "response_format": {"type": "json_object"}})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "unsupported_parameter")
    response = server.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 2, "response_format": {"type": "text"}})
    assert response.status_code == 200
    assert server.stop() == 0, server.log()


@pytest.fixture(scope="module", name="from_openai")
def run_openai(run_client):
    return run_client("openai")


class TestOpenAI:
    def test_parse(self, from_openai):
        """A model of pydantic goes out as a schema and comes back filled."""
        assert from_openai["parse"]["type"] == "Story"
        assert from_openai["parse"]["hero"] in ("fox", "bird") and 1 <= from_openai["parse"]["n_friends"] <= 9
        assert from_openai["parse"]["finish_reason"] == "stop"

    def test_stream_of_parse(self, from_openai):
        assert from_openai["parse_stream"] == from_openai["parse"]

    def test_json_object(self, from_openai):
        assert from_openai["json_object"]["begins"]

    def test_bad_schema(self, from_openai):
        error = from_openai["error_bad_schema"]
        assert (error["class"], error["status"], error["code"]) == ("BadRequestError", 400, "invalid_value")
        assert "/properties/a/type" in error["message"]
