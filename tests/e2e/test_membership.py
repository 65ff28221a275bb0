"""Shards that come and go as etcd or Kubernetes say, under a router that keeps every stream."""

import os
import shutil
import signal
import subprocess
import time

import pytest
import requests

from kubernetes_api import KubernetesApi
from launcher import BIN, MODEL
from machines import STORY, answer, free_port, strike_amid_an_answer

SEEDS = range(8)


class Etcd:
    def __init__(self, folder):
        self.folder = folder
        self.port, self.peers = free_port(), free_port()
        self.process = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        peers = f"http://127.0.0.1:{self.peers}"
        with open(self.folder / "etcd.log", "ab") as log:
            self.process = subprocess.Popen(
                ["etcd", "--name=one", f"--data-dir={self.folder}/data", f"--listen-client-urls={self.url}", f"--advertise-client-urls={self.url}",
                 f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=one={peers}"], stdout=log, stderr=log)
        end = time.monotonic() + 60
        while True:
            try:
                return requests.post(self.url + "/v3/kv/range", json={"key": "AA=="}, timeout=10).raise_for_status()
            except requests.RequestException:
                assert self.process.poll() is None and time.monotonic() < end, (self.folder / "etcd.log").read_text()
                time.sleep(0.05)

    def kill(self):
        self.process.kill()
        self.process.wait(60)


@pytest.fixture
def etcd(tmp_path_factory):
    if shutil.which("etcd") is None:
        assert os.environ.get("CI") != "true", "CI needs etcd-server"
        pytest.skip("no etcd here: install etcd-server")
    made = Etcd(tmp_path_factory.mktemp("etcd"))
    made.start()
    yield made
    made.kill()


@pytest.fixture
def kubernetes():
    made = KubernetesApi("first")
    yield made
    made.stop()


def texts(url):
    return [answer(url, seed) for seed in SEEDS]


def members(now):
    return {r["address"]: r["state"] for r in now["replicas"]}


def test_shards_come_and_go_in_etcd(fleet, etcd):
    words = ["--etcd-endpoints", etcd.url, "--etcd-prefix", "/a-fleet"]
    fleet.start_router("--membership", "etcd", *words)
    fleet.said("router", "waiting for a shard.*there is no member yet")

    def shard(name):
        place = fleet.shard(name, *words, "--etcd-lease-ttl-s", 2)
        fleet.said(name, "This shard stands in etcd as " + place.removeprefix("tcp://"))
        return place

    places = {name: shard(name) for name in ("one", "two")}
    url = fleet.connected()
    assert members(fleet.serving(2)) == {place: "serving" for place in places.values()}
    whole = texts(url)

    # Killed: what it computed goes on at once, and its place in the list ends with its lease.
    seed, dead, text = strike_amid_an_answer(fleet, url, places, fleet.kill)
    assert text == whole[seed]
    places["three"] = shard("three")
    fleet.until(lambda now: now["serving"] == 2 and members(now).get(places[dead]) in ("absent", None))
    assert fleet.fleet()["membership"]["members"] == 2
    del places[dead]
    assert texts(url) == whole

    # Told to end: it gives its place back, and ends once the router has moved what it had.
    seed, leaver, text = strike_amid_an_answer(fleet, url, places, lambda name: fleet.processes[name].send_signal(signal.SIGTERM))
    assert text == whole[seed]
    assert fleet.processes[leaver].wait(60) == 0
    fleet.said("router", f"a member has left member={places[leaver].removeprefix('tcp://')}")
    assert fleet.fleet()["resumed"] == 1, "the one that was killed"
    del places[leaver]
    fleet.serving(1)
    assert texts(url) == whole

    # Without etcd the list holds; it takes up where it was.
    etcd.kill()
    fleet.said("router", "the list of members cannot be kept up to date")
    assert texts(url) == whole
    etcd.start()
    fleet.until(lambda now: now["membership"]["current"])
    places["four"] = shard("four")
    fleet.serving(2)
    assert texts(url) == whole


def test_pods_come_and_go_in_kubernetes(fleet, kubernetes):
    fleet.server_name = "shard"  # addresses of pods are in no certificate
    token = fleet.folder / "token"
    token.write_text("first\n")
    places = {"answers-0": fleet.shard("answers-0")}
    kubernetes.put("answers", "answers-0", places["answers-0"])
    fleet.start_router("--membership", "kubernetes", "--kubernetes-api", kubernetes.url, "--kubernetes-namespace", "fleet", "--kubernetes-services",
                       "prompts=prefill,answers=decode", "--kubernetes-port", "fleet", "--kubernetes-token-path", token)
    url = fleet.connected()
    whole = texts(url)

    # The token expires with the watch, and the pod of another role comes meanwhile.
    token.write_text("second\n")
    kubernetes.restart(token="second")
    places["prompts-0"] = fleet.shard("prompts-0")
    kubernetes.put("prompts", "prompts-0", places["prompts-0"])
    now = fleet.serving(2)
    assert {r["member"]: r["role"] for r in now["replicas"]} == {"answers-0": "decode", "prompts-0": "prefill"}
    assert texts(url) == whole
    long = {"messages": [{"role": "user", "content": "What is 12 + 30?"}, {"role": "assistant", "content": "12 + 30: 2+0=2, 1+3=4. 12 + 30 = 42"},
                         {"role": "user", "content": STORY}], "temperature": 0, "max_tokens": 200}
    requests.post(url + "/v1/chat/completions", json=long, timeout=120).raise_for_status()
    handovers = fleet.fleet()["handovers"]
    assert handovers["moved"] > 0 and handovers["transport"] == "tcp", handovers

    # The server forgets what was: the router lists anew, and finds one more.
    places["answers-1"] = fleet.shard("answers-1")
    kubernetes.restart(forgets=True)
    kubernetes.put("answers", "answers-1", places["answers-1"])
    fleet.serving(3)
    assert kubernetes.refused[410] > 0

    # A pod that is about to end is not ready: what it has goes elsewhere while it still answers.
    pods = {name: place for name, place in places.items() if name.startswith("answers")}
    seed, leaver, text = strike_amid_an_answer(fleet, url, pods, lambda name: kubernetes.put("answers", name, pods[name], ready=False))
    assert text == whole[seed]
    assert fleet.fleet()["resumed"] == 0 and fleet.processes[leaver].poll() is None
    kubernetes.delete(leaver)
    fleet.kill(leaver)
    fleet.serving(2)
    assert texts(url) == whole


@pytest.mark.parametrize("words, said", [
    (["--membership", "etcd"], "`etcd-endpoints`"),
    (["--membership", "etcd", "--etcd-endpoints", "http://e:1", "--replica-uds-path", "tcp://a:1"], "leave `master_shard_uds_path` and"),
    (["--membership", "etcd", "--etcd-endpoints", "http://e:1", "--roles", "prefill=1"], "`roles` are said by the members"),
    (["--replica-uds-path", "tcp://a"], "shard tcp://a: `address` must be a host and a port"),
])
def test_what_is_wrong_is_named(fleet, words, said):
    done = subprocess.run([str(w) for w in (BIN / "text-generation-router", "--tokenizer-name", MODEL, "--port", 0, *fleet.files("router"), *words)],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and said in done.stderr, done.stderr
