"""TLS on the port: Python's own client and the package openai, reload, certificates of clients, and noise."""

import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess

import pytest
import requests

from conftest import HERE
from demo import MESSAGES, PROMPT
from process_tree import wait_until

STREAM = {"inputs": PROMPT, "parameters": {"max_new_tokens": 40}}


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def make_certificate(folder, name, authority=None):
    """(certificate, key): of the host 127.0.0.1, signed by itself or by an authority."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    by = ["-CA", authority[0], "-CAkey", authority[1]] if authority else []
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2, "-subj", f"/CN={name}",
            "-addext", "subjectAltName=IP:127.0.0.1", *by, "-keyout", key, "-out", cert)
    return cert, key


def options_of(certificate):
    return ["--tls-cert-path", certificate[0], "--tls-key-path", certificate[1]]


def wait_ready(launcher, **more):
    """As Launcher.wait_ready(), with what this server's clients need."""
    get = launcher.get
    launcher.get = lambda path, **others: get(path, **more, **others)
    return launcher.wait_ready()


def connect(launcher, context):
    host, port = launcher.url.removeprefix("https://").split(":")
    return http.client.HTTPSConnection(host, int(port), context=context, timeout=60)


def met(launcher):
    """The certificate that a new connection is shown."""
    host, port = launcher.url.removeprefix("https://").split(":")
    return ssl.get_server_certificate((host, int(port)))


def records_of_a_stream(launcher, context):
    """What each record of TLS brought: one for whatever the server had to send at a moment."""
    host, port = launcher.url.removeprefix("https://").split(":")
    body = json.dumps(STREAM).encode()
    head = f"POST /generate_stream HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    records = []
    with socket.create_connection((host, int(port)), timeout=60) as plain, \
            context.wrap_socket(plain, server_hostname=host) as connection:
        connection.sendall(head.encode() + body)
        while not records or not records[-1].endswith(b"0\r\n\r\n"):
            records.append(connection.recv(65536))
    return records


@pytest.fixture
def certificate(tmp_path):
    return make_certificate(tmp_path, "one")


def test_answers_and_streams(launch, certificate):
    launcher = wait_ready(launch(*options_of(certificate)), verify=certificate[0])
    assert launcher.url.startswith("https://")
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(launcher.url + "/health", timeout=60)  # nobody vouches for it
    plain = launcher.post("/generate", STREAM, verify=certificate[0])
    assert plain.status_code == 200
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context(cafile=certificate[0])
        context.minimum_version = context.maximum_version = version
        connection = connect(launcher, context)
        for _ in range(2):  # one connection, two requests
            connection.request("POST", "/generate_stream", json.dumps(STREAM), {"Content-Type": "application/json"})
            response = connection.getresponse()
            events = [json.loads(line[5:]) for line in response if line.startswith(b"data:")]
            assert "".join(event["token"]["text"] for event in events) == plain.json()["generated_text"]
        connection.close()
        records = records_of_a_stream(launcher, context)
        assert len(records) > 10 and b"".join(records).count(b"data:") == len(events)
    python = pathlib.Path(os.environ["COXSWAIN_E2E_VENVS"]) / "venv-openai/bin/python"
    done = subprocess.run([python, "-B", HERE / "clients/openai_tls_client.py", launcher.url, certificate[0], json.dumps(MESSAGES)],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    texts = json.loads(done.stdout)
    whole = launcher.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 40, "temperature": 0}, verify=certificate[0])
    assert len(texts) > 20 and "".join(texts) == whole.json()["choices"][0]["message"]["content"]
    assert launcher.stop() == 0


def test_noise_hurts_nobody(launch, certificate):
    launcher = wait_ready(launch(*options_of(certificate), "--header-timeout-ms", "500"), verify=certificate[0])
    host, port = launcher.url.removeprefix("https://").split(":")
    connection = connect(launcher, ssl.create_default_context(cafile=certificate[0]))
    connection.request("POST", "/generate_stream", json.dumps(STREAM), {"Content-Type": "application/json"})
    response = connection.getresponse()
    for noise in (b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", os.urandom(4000),
                  b"\x16\x03\x01\xff\xff\x01" + bytes(70000), b""):
        with socket.create_connection((host, int(port)), timeout=30) as other:
            try:
                other.sendall(noise)
                answer = other.recv(1000)
            except ConnectionResetError:
                answer = b""
            assert not answer.startswith(b"HTTP") and len(answer) < 50
    assert response.read().count(b"data:") > 20
    assert launcher.get("/health").status_code == 200
    assert launcher.stop() == 0


def test_a_certificate_is_replaced(launch, certificate, tmp_path):
    launcher = wait_ready(launch(*options_of(certificate)), verify=certificate[0])
    assert met(launcher) == certificate[0].read_text()
    second = make_certificate(tmp_path, "two")
    connection = connect(launcher, ssl._create_unverified_context())
    connection.connect()
    second[1].replace(certificate[1])
    second_text = second[0].read_text()
    second[0].replace(certificate[0])
    wait_until(lambda: met(launcher) == second_text, 30, launcher.log)
    connection.request("GET", "/health")  # one from before
    assert connection.getresponse().status == 200
    # What is of no use is logged, also where it is asked for.
    certificate[1].write_text("no key")
    wait_until(lambda: "is not used, the old one holds" in launcher.out(), 30, launcher.log)
    assert f"`--tls-key-path` {certificate[1]}: " in launcher.out()
    n_lines = launcher.out().count("the old one holds")
    launcher.process.send_signal(signal.SIGHUP)
    wait_until(lambda: launcher.out().count("the old one holds") > n_lines, 30, launcher.log)
    assert met(launcher) == second_text
    assert launcher.stop() == 0


def test_clients_need_a_certificate(launch, certificate, tmp_path):
    authority = make_certificate(tmp_path, "authority")
    mine = make_certificate(tmp_path, "mine", authority)
    other = make_certificate(tmp_path, "other")
    launcher = wait_ready(launch(*options_of(certificate), "--tls-client-ca-path", authority[0]), verify=certificate[0], cert=mine)
    assert launcher.post("/generate", STREAM, verify=certificate[0], cert=mine).status_code == 200
    for wrong in (None, other):
        with pytest.raises(requests.exceptions.ConnectionError):
            launcher.post("/generate", STREAM, verify=certificate[0], cert=wrong)
    assert launcher.stop() == 0


def test_what_is_wrong_ends_the_start(launch, certificate, tmp_path):
    launcher = launch("--tls-cert-path", certificate[0])
    assert launcher.wait_exit() == 2
    assert "`tls_key_path` must be set, too, for TLS" in launcher.err()
    other = make_certificate(tmp_path, "other")
    launcher = launch("--tls-cert-path", certificate[0], "--tls-key-path", other[1])
    assert launcher.wait_exit() == 2
    assert f"`--tls-key-path` {other[1]}: " in launcher.err() and "mismatch" in launcher.err()
    assert "shard" not in launcher.out()  # no model was loaded for it
