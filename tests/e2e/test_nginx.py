"""Debian's nginx as it comes, with its buffers on, between a client and the server: HTTP/1.1 and TLS."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import urllib.parse

import pytest
import requests

from demo import CONFIG, MESSAGES, MODEL, PROMPT
from process_tree import wait_until
from test_tls import make_certificate

NGINX = pathlib.Path(os.environ["COXSWAIN_E2E_NGINX"]) / "usr/sbin/nginx"
CONTEXT = 32768
# Many seconds of small events.
LONG = {"prompt": PROMPT, "max_tokens": CONTEXT - 200, "ignore_eos": True, "logprobs": 0}
CONFIGURATION = """
{user}
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
  access_log off;
  {temporary}
  upstream coxswain {{ server {upstream}; keepalive 8; }}
  server {{
    listen {plain};
    listen {tls} ssl;
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    location / {{
      proxy_pass http://coxswain;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }}
  }}
}}
"""


@contextlib.contextmanager
def nginx_before(launcher, folder):
    """Runs nginx: (its URL, its URL with TLS, a file with its certificate)."""
    certificate, key = make_certificate(folder, "nginx")
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    plain, tls = ("%s:%d" % s.getsockname() for s in sockets)
    temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    config = folder / "nginx.conf"
    config.write_text(CONFIGURATION.format(folder=folder, temporary=temporary, upstream=launcher.url.removeprefix("http://"), plain=plain, tls=tls,
                                    certificate=certificate, key=key, user="user root;" if os.geteuid() == 0 else ""))
    descriptors = [s.fileno() for s in sockets]
    # It takes over sockets that listen already, so no port can be lost to somebody else.
    environment = {"NGINX": "".join(f"{d};" for d in descriptors)}
    with open(folder / "stderr", "wb") as errors, subprocess.Popen(
            [NGINX, "-p", folder, "-e", "stderr", "-c", config], env=environment, pass_fds=descriptors, stderr=errors) as nginx:
        for s in sockets:
            s.close()
        try:
            yield f"http://{plain}", f"https://{tls}", certificate
            assert nginx.poll() is None, (folder / "stderr").read_text()
        finally:
            nginx.terminate()


class Server:
    def __init__(self, launcher, url, certificate):
        self.launcher = launcher
        self.url = url
        self.session = requests.Session()
        self.certificate = certificate
        port = re.search(r"the replicas are shown at=127.0.0.1:(\d+)", launcher.out())[1]
        self.admin = f"http://127.0.0.1:{port}/admin/requests"

    def post(self, path, body, **more):
        return self.session.post(self.url + path, json=body, verify=self.certificate, timeout=60, **more)

    def running(self):
        """What the server itself, not nginx, says."""
        return requests.get(self.admin, timeout=60).json()["requests"]

    def peers(self):
        """Ports that are connected to the server's own."""
        port = int(self.launcher.url.rsplit(":", 1)[1])
        rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return {row[2] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "01"}

    def begin(self, path, body):
        """A request whose answer nobody reads: its connection."""
        address = urllib.parse.urlsplit(self.url)
        if address.scheme == "https":
            connection = http.client.HTTPSConnection(address.netloc, context=ssl.create_default_context(cafile=self.certificate), timeout=60)
        else:
            connection = http.client.HTTPConnection(address.netloc, timeout=60)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return connection

    def n_dropped(self):
        return self.launcher.metrics().get('tgi_request_failure{err="dropped"}', 0)


@pytest.fixture(scope="module", name="both")
def start_both(tmp_path_factory):
    from launcher import Launcher
    folder = tmp_path_factory.mktemp("nginx")
    model = folder / "model"
    shutil.copytree(MODEL, model)
    (model / "config.json").write_text(json.dumps({**CONFIG, "max_position_embeddings": CONTEXT}))
    launcher = Launcher(["--admin-listen", "127.0.0.1:0"], model=model).start()
    try:
        launcher.wait_ready()
        with nginx_before(launcher, folder) as (plain, tls, certificate):
            yield {"http": Server(launcher, plain, certificate), "tls": Server(launcher, tls, certificate)}
        assert launcher.stop() == 0, launcher.log()
    finally:
        launcher.dispose()


@pytest.fixture(params=["http", "tls"])
def server(both, request):
    return both[request.param]


def events_of(answer):
    return (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith(b"data: {"))


def n_tokens_of(event):
    return sum(len(choice["logprobs"]["tokens"]) for choice in event["choices"])


def test_tokens_come_one_by_one(server):
    """While the model is stopped, whatever the server has sent is there: nothing waits for more."""
    with server.post("/v1/completions", {**LONG, "stream": True}, stream=True) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        events = events_of(answer)
        n_tokens = 0
        for _ in range(5):
            n_tokens += n_tokens_of(next(events))
            model = server.launcher.shard_pid()
            os.kill(model, signal.SIGSTOP)
            try:
                [request] = server.running()
                assert request["state"] == "running"
                while n_tokens < request["generated_tokens"]:
                    n_tokens += n_tokens_of(next(events))
            finally:
                os.kill(model, signal.SIGCONT)
    wait_until(lambda: not server.running(), 30, server.launcher.log)


def test_answers_are_those_of_the_server(server):
    asked = {"messages": MESSAGES, "max_tokens": 20, "temperature": 0}
    direct = server.launcher.post("/v1/chat/completions", asked).json()["choices"]
    whole = server.post("/v1/chat/completions", asked)
    assert (whole.status_code, whole.headers["content-type"]) == (200, "application/json")
    assert whole.json()["choices"] == direct
    events = list(events_of(server.post("/v1/chat/completions", {**asked, "stream": True}, stream=True)))
    assert "".join(e["choices"][0]["delta"]["content"] for e in events) == direct[0]["message"]["content"]
    refused = server.post("/v1/chat/completions", {**asked, "max_tokens": 0})
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "max_tokens"


def test_the_connection_behind_it_is_kept(server):
    small = {"inputs": PROMPT, "parameters": {"max_new_tokens": 2}}
    assert server.post("/generate", small).status_code == 200
    before = server.peers()
    for _ in range(3):
        assert server.post("/generate", small).status_code == 200
    assert before & server.peers()


@pytest.mark.parametrize("stream", [True, False])
def test_who_hangs_up_cancels(server, stream):
    n_dropped = server.n_dropped()
    connection = server.begin("/v1/completions", {**LONG, "stream": stream})
    wait_until(lambda: [r["state"] for r in server.running()] == ["running"], 30, server.launcher.log)
    connection.close()
    wait_until(lambda: not server.running(), 30, server.launcher.log)
    assert server.n_dropped() == n_dropped + 1
