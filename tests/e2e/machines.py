"""Shards and a router as on machines of their own, which know each other by certificates. Without hosts (hosts.py) all are on the
loopback; nothing of what they say to each other knows that."""

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import time

import requests

from hosts import Loopback
from launcher import BIN, MODEL
from process_tree import stop_process

STORY = "Tell me a story about a fox and a boat."


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=60)


class Fleet:
    """The certificates, and processes that end with the test. The router is on the first host, shards are on the others in turn."""

    def __init__(self, folder, hosts=(Loopback(),) * 2):
        self.folder = folder
        self.processes = {}
        self.hosts = {"router": hosts[0]}
        self.next_hosts = itertools.cycle(hosts[1:])
        self.server_name = None  # what all certificates have in the place of an address
        self.environment = {"PATH": os.environ["PATH"]}
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=fleet",
                "-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.pem"))

    def host(self, name):
        if name not in self.hosts:
            self.hosts[name] = next(self.next_hosts)
        return self.hosts[name]

    def files(self, name, authority="ca"):
        at = self.folder
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout", str(at / f"{name}.key"),
                "-out", str(at / f"{name}.csr"))
        who = f"DNS:{self.server_name}" if self.server_name else f"IP:{self.host(name).address}"
        (at / "san").write_text(f"subjectAltName={who}\n")
        openssl("x509", "-req", "-in", str(at / f"{name}.csr"), "-CA", str(at / f"{authority}.pem"), "-CAkey", str(at / f"{authority}.key"), "-days", "2",
                "-extfile", str(at / "san"), "-out", str(at / f"{name}.pem"))
        return ["--fleet-cert-path", at / f"{name}.pem", "--fleet-key-path", at / f"{name}.key", "--fleet-ca-path", at / "ca.pem",
                *(["--fleet-server-name", self.server_name] if self.server_name else [])]

    def start(self, name, program, *words):
        log = open(self.folder / f"{name}.log", "wb")
        with log, self.host(name).inside():
            self.processes[name] = subprocess.Popen([str(w) for w in (BIN / program, *words)], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                                    env=self.environment)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def said(self, name, pattern, seconds=60):
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.log(name))):
            assert self.processes[name].poll() is None and time.monotonic() < end, self.log(name)
            time.sleep(0.05)
        return found

    def free_place(self, name):
        """Where a shard of that name can listen."""
        host = self.host(name)
        with host.inside():
            return f"{host.address}:{free_port(host.address)}"

    def shard(self, name, *words, listen=None):
        address = self.host(name).address
        self.start(name, "text-generation-server", "serve", MODEL, "--uds-path", self.folder / name, "--fleet-listen", listen or f"{address}:0",
                   *self.files(name), *words)
        return f"tcp://{address}:" + self.said(name, r"Other machines reach it at port (\d+)")[1]

    def router(self, places, *words):
        self.start_router(*(w for place in places[:1] for w in ("--master-shard-uds-path", place)),
                          *(w for place in places[1:] for w in ("--replica-uds-path", place)), *words)
        return self.connected()

    def start_router(self, *words):
        self.start("router", "text-generation-router", "--tokenizer-name", MODEL, "--port", 0, "--hostname", "127.0.0.1", "--admin-listen",
                   f"unix:{self.folder}/admin", *self.files("router"), *words)

    def connected(self):
        return self.said("router", r"Connected url=(\S+)")[1]

    def fleet(self):
        curl = subprocess.run(["curl", "-sS", "--unix-socket", str(self.folder / "admin"), "http://localhost/fleet"], check=True, capture_output=True, timeout=60)
        return json.loads(curl.stdout)

    def until(self, holds, seconds=60):
        """What GET /fleet says once it holds."""
        end = time.monotonic() + seconds
        while not holds(now := self.fleet()):
            assert time.monotonic() < end, f"{now}\n{self.log('router')}"
            time.sleep(0.05)
        return now

    def serving(self, n):
        return self.until(lambda now: now["serving"] == n)

    def kill(self, name):
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait(60)

    def stop(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait(60)


def free_port(address="127.0.0.1"):
    with socket.create_server((address, 0)) as listener:
        return listener.getsockname()[1]


def answer(url, seed):
    body = {"inputs": STORY, "parameters": {"max_new_tokens": 200, "do_sample": True, "seed": seed, "details": True}}
    text = requests.post(url + "/generate", json=body, timeout=120)
    assert text.status_code == 200, text.text
    return text.json()["generated_text"]


def computing(fleet, places):
    at = [r["address"] for r in fleet.fleet()["replicas"] if r["running"]]
    return [name for name, place in places.items() if place in at]


def strike_amid_an_answer(fleet, url, places, strike):
    """The seed, the name of the shard that was struck while it computed, and the text that came all the same."""
    for seed in [*range(8)] * 8:  # short answers end before anybody looks
        body = {"inputs": STORY, "parameters": {"max_new_tokens": 200, "do_sample": True, "seed": seed}}
        with requests.post(url + "/generate_stream", json=body, stream=True, timeout=120) as stream:
            lines = (json.loads(line[5:]) for line in stream.iter_lines() if line.startswith(b"data:"))
            next(lines)
            struck = None
            for name in computing(fleet, places)[:1]:
                process = fleet.processes[name]
                stop_process(process.pid)
                time.sleep(0.2)  # the router has what it had sent
                if name in computing(fleet, places):
                    strike(name)
                    struck = name
                if process.poll() is None:
                    process.send_signal(signal.SIGCONT)
            texts = [line["generated_text"] for line in lines]
            if struck:
                return seed, struck, texts[-1]
    raise AssertionError("no answer was long enough")
