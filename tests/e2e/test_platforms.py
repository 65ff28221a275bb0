"""Amazon SageMaker and Google Vertex AI: their variables, paths and documents, on real processes."""

import os
import pathlib
import subprocess

from launcher import BIN, MODEL, failed_start

SERVE = pathlib.Path(__file__).resolve().parents[2] / "deploy/sagemaker/serve"


def test_vertex(launch):
    own = launch(environment={"AIP_PREDICT_ROUTE": "/predict", "AIP_HEALTH_ROUTE": "/alive", "API_KEY": "secret"}).wait_ready()
    assert own.get("/alive").status_code == 200, "open, as the platform has no key"
    instances = {"instances": [{"messages": [{"role": "user", "content": "What is 12 + 30?"}], "temperature": 0},
                               {"inputs": "Once", "parameters": {"max_new_tokens": 3}}]}
    assert own.post("/predict", instances).status_code == 401
    answer = own.post("/predict", instances, headers={"Authorization": "Bearer secret"}).json()
    assert len(answer["predictions"]) == 2 and answer["predictions"][0].endswith("= 42")
    assert own.post("/vertex", instances, headers={"x-api-key": "secret"}).json() == answer


def test_a_path_of_vertex_that_is_none(launch):
    own = launch(environment={"AIP_PREDICT_ROUTE": "predict"})
    assert "AIP_PREDICT_ROUTE must be a path, `predict` is none" in failed_start(own)


def test_the_entry_point_of_sagemaker():
    variables = {"PATH": f"{BIN}:{os.environ['PATH']}"}
    refused = subprocess.run([SERVE], env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1 and refused.stderr == "HF_MODEL_ID must be set\n"
    plan = subprocess.run([SERVE, "--plan"], env={**variables, "HF_MODEL_ID": str(MODEL), "HF_MODEL_QUANTIZE": "int8"}, capture_output=True,
                          text=True, timeout=60, check=True).stdout
    assert "--port=8080" in plan and "--quantize=int8" in plan
