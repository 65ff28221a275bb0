"""The Open Inference Protocol below /v2 gets what the native routes say."""

import json

import requests

from demo import PROMPT

GREEDY = {"max_new_tokens": 12, "do_sample": False}


def native(server, text, **parameters):
    return server.post("/generate", {"inputs": text, "parameters": {**GREEDY, "details": True, **parameters}}).json()


def model_of(server):
    return server.get("/v1/models").json()["data"][0]["id"].strip("/")


def test_infer_in_strings_and_in_bytes(server):
    texts = [PROMPT, "Once upon a time"]
    wanted = [native(server, text)["generated_text"] for text in texts]
    url = f"/v2/models/{model_of(server)}/versions/1/infer"
    tensor = {"name": "text_input", "shape": [2], "datatype": "BYTES", "data": texts}
    answer = server.post(url, {"id": "seven", "inputs": [tensor], "parameters": GREEDY})
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"model_name": model_of(server), "model_version": "1", "id": "seven",
                             "outputs": [{"name": "text_output", "shape": [2], "datatype": "BYTES", "data": wanted}]}
    # As TGI's clients write it.
    inputs = [{"name": f"i{i}", "shape": [1, len(t)], "datatype": "BYTES", "data": list(t.encode())} for i, t in enumerate(texts)]
    body = {"id": "0", "inputs": inputs, "outputs": [{"name": "o0"}, {"name": "o1"}], "parameters": GREEDY}
    outputs = server.post(url, body).json()["outputs"]
    assert [bytes(o["data"]).decode() for o in outputs] == wanted and [o["name"] for o in outputs] == ["o0", "o1"]
    assert [o["shape"] for o in outputs] == [[1, len(t.encode())] for t in wanted]


def test_generate_and_its_stream(server):
    wanted = native(server, PROMPT)
    url = f"/v2/models/{model_of(server)}/generate"
    body = {"text_input": PROMPT, "parameters": {"max_tokens": 12, "details": True}}
    whole = server.post(url, body, headers={"x-request-id": "r8"}).json()
    assert whole["text_output"] == wanted["generated_text"] and whole["id"] == "r8"
    assert whole["details"]["finish_reason"] == wanted["details"]["finish_reason"]
    assert [t["id"] for t in whole["details"]["logprobs"]] == [t["id"] for t in wanted["details"]["tokens"]]
    with requests.post(f"{server.url}{url}_stream", json=body, stream=True, timeout=60) as answer:
        events = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith(b"data: ")]
    assert "".join(e["text_output"] for e in events) == wanted["generated_text"]
    assert [e["details"]["finish_reason"] for e in events] == [None] * (len(events) - 1) + [wanted["details"]["finish_reason"]]


def test_health_and_metadata(server):
    assert server.get("/v2/health/live").json() == {"live": True}
    assert server.get("/v2/health/ready").json() == {"live": True, "ready": True}
    assert server.get("/v2").json()["extensions"] == ["health", "models", "metrics"]
    model = server.get(f"/v2/models/{model_of(server)}").json()
    assert model["name"] == model_of(server) and model["inputs"][0]["name"] == "text_input" and model["versions"] == ["1"]
    assert server.get(f"/v2/models/{model_of(server)}/ready").json()["ready"] is True


def test_wrong_methods(server):
    model = f"/v2/models/{model_of(server)}"
    for method, path, allowed in (("GET", "/infer", "POST"), ("HEAD", "/generate", "POST"), ("POST", "", "GET, HEAD"), ("POST", "/ready", "GET, HEAD")):
        refused = requests.request(method, server.url + model + path, json={}, timeout=60)
        assert (refused.status_code, refused.headers["allow"]) == (405, allowed), (method, path, refused.text)


def test_wrong_input_is_refused_by_name(server):
    url = f"/v2/models/{model_of(server)}/infer"
    for body, name in (({}, "`inputs`"), ({"inputs": [{"name": "a", "shape": [2], "datatype": "BYTES", "data": ["x"]}]}, "`inputs.0.shape`"),
                       ({"inputs": [{"name": "a", "shape": [1], "datatype": "FP32", "data": [1.5]}]}, "`inputs.0.datatype`")):
        refused = server.post(url, body)
        assert refused.status_code == 422 and name in refused.json()["error"], refused.text
