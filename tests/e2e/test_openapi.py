"""What the server says of itself, held against what it does: schemathesis (PyPI) over every operation."""

import json
import os
import pathlib
import subprocess

import pytest
import requests

from launcher import BIN

HERE = pathlib.Path(__file__).resolve().parent
VENV = pathlib.Path(os.environ["COXSWAIN_E2E_VENVS"]) / "venv-schemathesis/bin"
DOCUMENT = "/api-doc/openapi.json"
EXAMPLES = int(os.environ.get("COXSWAIN_SCHEMATHESIS_EXAMPLES", "20"))  # of each operation
CHECKS = ["no_server_error", "stream_conformance", "status_code_conformance", "content_type_conformance",
          "response_headers_conformance", "response_schema_conformance", "negative_data_rejection", "unsupported_method"]
# Short answers: what is looked at is their form.
LIMITS = ["--max-input-tokens", "80", "--max-total-tokens", "96"]


def document_of(server):
    return requests.get(server.url + DOCUMENT, timeout=60).json()


def with_examples(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "requestBody" in operation:
                yield path, method, operation["requestBody"]["content"]["application/json"]["example"]


def test_valid(server, tmp_path):
    """By a validator of OpenAPI, and without an API key."""
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document_of(server)))
    done = subprocess.run([VENV / "python", "-m", "openapi_spec_validator", file], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_print_schema(server):
    """The same document from the command line, as TGI's router prints it; the dialect changes it."""
    done = subprocess.run([BIN / "text-generation-router", "print-schema"], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == document_of(server)
    assert done.stdout.startswith('{\n  "openapi": "3.1.0",\n') and not done.stderr
    tgi = subprocess.run([BIN / "text-generation-router", "print-schema", "--v1-dialect=tgi"], capture_output=True, text=True,
                         timeout=60, check=True)
    chat = json.loads(tgi.stdout)["paths"]["/v1/chat/completions"]["post"]["responses"]
    assert "422" in chat and "422" not in document_of(server)["paths"]["/v1/chat/completions"]["post"]["responses"]


def test_examples_are_answered(server):
    """The body that stands beside each operation gets a 200."""
    n_examples = 0
    for path, _, body in with_examples(document_of(server)):
        answer = server.post(path, body)
        assert answer.status_code == 200, (path, answer.text)
        n_examples += 1
    assert n_examples >= 14


def test_docs_page(server):
    """One page that loads nothing from elsewhere."""
    answer = requests.get(server.url + "/docs", timeout=60)
    assert answer.status_code == 200 and answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert len(answer.content) < 16_384
    for loads in ("http://", "https://", "src=", "<link", "@import", "innerHTML"):
        assert loads not in answer.text, loads


@pytest.mark.parametrize("dialect", ["openai", "tgi"])
def test_answers_conform(launch, tmp_path, dialect):
    """The example of each operation, each bound of each field (in the second dialect with --full alone) and drawn documents:
    nothing that breaks the description is accepted, nothing comes back that it does not have."""
    server = launch("--v1-dialect", dialect, *LIMITS).wait_ready()
    url = server.url + DOCUMENT
    phases = ["examples", "fuzzing"]
    if dialect == "openai" or EXAMPLES > 20:
        phases.append("coverage")
    command = [VENV / "st", "--config-file", HERE / "schemathesis.toml", "run", url, "--seed", "1",
               "--max-examples", str(EXAMPLES), "--checks", ",".join(CHECKS), "--phases", ",".join(phases),
               "--continue-on-failure", "--no-shrink", "--generation-database", "none", "--suppress-health-check", "all",
               "--warnings", "off", "--no-color", "--request-timeout", "60"]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "openapi_hooks", "PYTHONPATH": str(HERE / "clients"), "COXSWAIN_E2E_OPENAPI": url}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=3600, check=False)
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-2000:]
    assert server.is_healthy() and server.stop() == 0
