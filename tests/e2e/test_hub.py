"""coxswain pull against a hub that misbehaves, and huggingface_hub over the cache that it wrote."""

import collections
import hashlib
import http.server
import json
import math
import os
import pathlib
import re
import subprocess
import threading
import time

import pytest

from demo import MODEL
from launcher import BIN, failed_start
from process_tree import wait_until

COMMIT = "c" * 40
TOKEN = "hf_secret"


def git_blob(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub:
    """A hub of one model, and the store on another port that large files are redirected to."""

    def __init__(self):
        self.files = {"config.json": b'{"model_type": "llama"}', "tokenizer.json": b"{}", "model.safetensors": os.urandom(1 << 20)}
        self.needs_token = False
        self.cuts = 0  # answers of the store that end half-way
        self.lies = False  # the store's bytes are others
        self.crowd = None  # (status, seconds): beside another one a request for a range gets this, and is to come again
        self.open = 0  # requests for a range
        self.refused = {}  # when that was, by range
        self.early = 0  # ranges that came again before they were to
        self.lock = threading.Lock()
        self.loops = False  # redirects without end
        self.holds = None  # an event: the store sends half, and waits for it
        self.asked = collections.defaultdict(list)  # {"hub" or "store": headers of each request}
        self.store = self.serve("store")
        self.front = self.serve("hub")
        self.url = f"http://127.0.0.1:{self.front.server_port}"

    def serve(self, role):
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                hub.asked[role].append(dict(self.headers))
                (hub.answer_store if role == "store" else hub.answer_front)(self)

            def do_HEAD(self):
                # huggingface_hub asks so for what a file is; what `coxswain pull` needs stands in the list.
                data = hub.files[self.path.rpartition("/")[2]]
                large = self.path.endswith(".safetensors")
                digest = hashlib.sha256(data).hexdigest() if large else git_blob(data)
                send(self, 200, data, {"ETag": f'"{digest}"', "X-Repo-Commit": COMMIT}, 0)

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def listing(self):
        def entry(name, data):
            if name.endswith(".safetensors"):
                lfs = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
                return {"rfilename": name, "size": len(data), "blobId": "0" * 40, "lfs": lfs}
            return {"rfilename": name, "size": len(data), "blobId": git_blob(data)}

        return json.dumps({"id": "org/name", "sha": COMMIT, "siblings": [entry(*f) for f in self.files.items()]}).encode()

    def tree(self):
        """The list of files that huggingface_hub asks for."""
        return json.dumps([{"type": "file", "path": name, "size": len(data), "oid": git_blob(data)} for name, data in self.files.items()]).encode()

    def answer_front(self, request):
        if self.needs_token and request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return send(request, 401, b"no", {"X-Error-Message": "Access to model org/name is restricted."})
        if request.path.startswith("/api/models/org/name/revision/main"):
            return send(request, 200, self.listing())
        if request.path.startswith(f"/api/models/org/name/tree/{COMMIT}"):
            return send(request, 200, self.tree(), {"Content-Type": "application/json"})
        name = request.path.rpartition("/")[2]
        if name not in self.files:
            return send(request, 404, b"none", {"X-Error-Message": "Revision not found"})
        if self.loops:
            return send(request, 302, b"", {"Location": request.path})
        if name.endswith(".safetensors"):
            return send(request, 302, b"", {"Location": f"http://127.0.0.1:{self.store.server_port}/{name}"})
        return send(request, 200, self.files[name])

    def answer_store(self, request):
        data = self.files[request.path[1:]]
        if self.lies:
            data = bytes(len(data))
        asked = request.headers.get("Range")
        begin, end = re.fullmatch(r"bytes=(\d+)-(\d*)", asked or "bytes=0-").groups()
        begin, end = int(begin), int(end or len(data) - 1) + 1
        body = data[begin:end]
        headers = {"Content-Range": f"bytes {begin}-{end - 1}/{len(data)}"} if asked else {}
        if self.crowd is not None and asked:
            return self.answer_one(request, body, headers)
        cut = len(body)
        if self.holds is not None:
            return send_held(request, body, headers, self.holds)
        if self.cuts:
            self.cuts -= 1
            cut //= 2
        send(request, 206 if asked else 200, body, headers, cut)

    def answer_one(self, request, body, headers):
        """One range at a time: the first one is not sent before another has come, too."""
        status, seconds = self.crowd
        asked = request.headers["Range"]
        with self.lock:
            self.early += time.monotonic() < self.refused.get(asked, -math.inf) + seconds
            alone = self.open == 0
            self.open += alone
            if not alone:
                self.refused[asked] = time.monotonic()
        if not alone:
            return send(request, status, b"busy", {"Retry-After": str(seconds)})
        wait_until(lambda: self.refused, 30, "only one connection")
        with self.lock:
            self.open -= 1
        send(request, 206, body, headers)

    def close(self):
        for server in (self.front, self.store):
            server.shutdown()
            server.server_close()


def send(request, status, body, headers=None, cut=None):
    request.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body[:cut])
    request.close_connection = True


def send_held(request, body, headers, event):
    request.send_response(200)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body[:len(body) // 2])
    request.wfile.flush()
    event.wait(60)
    request.close_connection = True


@pytest.fixture
def hub():
    made = Hub()
    yield made
    made.close()


def pull(hub, cache, *words, **variables):
    env = {"PATH": os.environ["PATH"], "HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(cache), "no_proxy": "*", **variables}
    return subprocess.run([BIN / "coxswain", "pull", *(words or ["org/name"])], env=env, capture_output=True, text=True, timeout=120)


def check_whole(hub, done):
    assert done.returncode == 0, done.stderr
    folder = pathlib.Path(done.stdout.strip())
    assert folder.name == COMMIT
    assert {f.name: f.read_bytes() for f in folder.iterdir()} == hub.files


def test_cut_connections_are_gone_on_with(hub, tmp_path):
    hub.cuts = 3
    check_whole(hub, pull(hub, tmp_path))
    ranges = [headers.get("Range") for headers in hub.asked["store"]]
    size = 1 << 20
    assert ranges == [None, *(f"bytes={size - (size >> i)}-" for i in (1, 2, 3))]
    hub.asked.clear()
    check_whole(hub, pull(hub, tmp_path))
    assert len(hub.asked["hub"]) == 1 and not hub.asked["store"]


def test_a_large_file_comes_in_ranges(hub, tmp_path):
    step = 16 << 20
    size = 3 * step + 5
    hub.files["model.safetensors"] = bytes(range(256)) * (size // 256) + b"tail!"[:size % 256]
    hub.cuts = 2
    check_whole(hub, pull(hub, tmp_path))
    ranges = [headers.get("Range") for headers in hub.asked["store"]]
    assert {f"bytes={i * step}-{min(size, (i + 1) * step) - 1}" for i in range(4)} <= set(ranges)
    assert len(ranges) == 6, "and what two of them lacked"


def test_a_busy_hub_is_asked_for_one_range_at_a_time(hub, tmp_path):
    hub.files["model.safetensors"] = bytes(5 << 24)
    hub.crowd = (429, 2)
    check_whole(hub, pull(hub, tmp_path))
    assert 1 <= len(hub.refused) <= 3 and hub.early == 0
    assert len(hub.asked["store"]) == 5 + len(hub.refused), "what was refused came again alone"


def test_the_token_stays_with_the_hub(hub, tmp_path):
    hub.needs_token = True
    refused = pull(hub, tmp_path)
    assert refused.returncode == 1
    assert "HTTP 401" in refused.stderr and "HF_TOKEN" in refused.stderr and "is restricted" in refused.stderr
    done = pull(hub, tmp_path, HF_TOKEN=TOKEN)
    check_whole(hub, done)
    assert TOKEN not in done.stderr
    assert all("Authorization" not in headers for headers in hub.asked["store"]) and hub.asked["store"]


def test_wrong_bytes_are_no_model(hub, tmp_path):
    hub.lies = True
    done = pull(hub, tmp_path)
    assert done.returncode == 1 and "model.safetensors" in done.stderr and "digest" in done.stderr
    assert not (tmp_path / "models--org--name/refs/main").exists()
    hub.lies = False
    check_whole(hub, pull(hub, tmp_path))


def test_what_is_refused(hub, tmp_path):
    assert pull(hub, tmp_path, "../x").returncode == 2
    assert pull(hub, tmp_path, "org/name", "--revision", "../x").returncode == 2
    offline = pull(hub, tmp_path, HF_HUB_OFFLINE="1")
    assert offline.returncode == 1 and "HF_HUB_OFFLINE" in offline.stderr
    assert not hub.asked
    hub.files["../escaped.json"] = b"{}"
    escaped = pull(hub, tmp_path)
    assert escaped.returncode == 1 and "../escaped.json" in escaped.stderr


def test_redirects_end(hub, tmp_path):
    hub.loops = True
    done = pull(hub, tmp_path)
    assert done.returncode == 1 and "redirect" in done.stderr
    assert len(hub.asked["hub"]) < 100


def real_model(hub):
    hub.files = {f.name: f.read_bytes() for f in MODEL.iterdir() if f.suffix in (".json", ".safetensors", ".jinja")}


def variables(hub, cache):
    return {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(cache), "no_proxy": "*"}


def test_the_launcher_downloads(hub, launch, tmp_path):
    """The first start downloads; the second asks nobody; a revision that the cache lacks is asked for."""
    real_model(hub)
    launcher = launch(model="org/name", environment=variables(hub, tmp_path)).wait_ready()
    assert launcher.get("/info").json()["model_id"] == "org/name"
    assert launcher.stop() == 0
    out = launcher.out()
    steps = ["Starting check and download process for org/name", "Download: model.safetensors 100.0 %",
             "Successfully downloaded weights for org/name", "Starting shard rank=0"]
    places = [out.find(step) for step in steps]
    assert -1 not in places and places == sorted(places), out
    hub.asked.clear()
    again = launch(model="org/name", environment=variables(hub, tmp_path)).wait_ready()
    assert again.stop() == 0 and not hub.asked and "download process" not in again.out()
    code, variant, cause, _ = failed_start(launch("--revision", "other", model="org/name", environment=variables(hub, tmp_path)))
    assert (code, variant) == (3, "DownloadError") and "other" in cause and hub.asked["hub"]


def test_a_download_is_stopped_and_gone_on_with(hub, launch, tmp_path):
    real_model(hub)
    hub.holds = threading.Event()
    launcher = launch(model="org/name", environment=variables(hub, tmp_path))
    wait_until(lambda: hub.asked["store"], 60, launcher.log)
    wait_until(lambda: [*tmp_path.rglob("*.incomplete")], 60, launcher.log)
    assert launcher.stop() == 0
    assert "Starting shard" not in launcher.out()
    hub.holds.set()
    hub.holds = None
    again = launch(model="org/name", environment=variables(hub, tmp_path)).wait_ready()
    assert again.stop() == 0


def test_what_the_launcher_refuses(hub, launch, tmp_path):
    """Each says why; a model of pickles is not downloaded, and nothing is where HF_HUB_OFFLINE is set."""
    hub.needs_token = True
    code, variant, cause, _ = failed_start(launch(model="org/name", environment=variables(hub, tmp_path)))
    assert (code, variant) == (3, "DownloadError") and "HTTP 401" in cause and "HF_TOKEN" in cause
    hub.needs_token = False
    hub.files = {"config.json": b"{}", "pytorch_model.bin": b"x"}
    code, variant, cause, _ = failed_start(launch(model="org/name", environment=variables(hub, tmp_path)))
    assert (code, variant) == (3, "DownloadError") and "safetensors" in cause
    hub.asked.clear()
    offline = {**variables(hub, tmp_path), "HF_HUB_OFFLINE": "1"}
    code, variant, cause, _ = failed_start(launch(model="org/name", environment=offline))
    assert (code, variant) == (3, "DownloadError") and not hub.asked


def test_download_weights(hub, tmp_path):
    """The command of images that bring a model before they serve it, with the options of TGI's."""
    def download(*words):
        return subprocess.run([BIN / "text-generation-server", "download-weights", *words], env={"PATH": os.environ["PATH"], **variables(hub, tmp_path)},
                              capture_output=True, text=True, timeout=120)

    done = download("org/name", "--revision", "main", "--extension", ".safetensors", "--auto-convert", "--logger-level", "INFO", "--json-output")
    check_whole(hub, done)
    there = download(str(tmp_path))
    assert there.returncode == 0 and "Files are already present on the host. Skipping download." in there.stdout
    for words in ((), ("org/name", "--extension", ".bin"), ("org/name", "--merge-lora"), ("org/name", "--revision"), ("org/name", "x"), ("--what",)):
        refused = download(*words)
        assert refused.returncode == 2 and "download-weights" in refused.stderr, words


def test_huggingface_hub_reads_the_cache(hub, tmp_path):
    done = pull(hub, tmp_path)
    check_whole(hub, done)
    python = pathlib.Path(os.environ["COXSWAIN_E2E_VENVS"]) / "venv-huggingface-hub/bin/python"
    script = "import sys, huggingface_hub as h; print(h.snapshot_download('org/name', cache_dir=sys.argv[1], local_files_only=True)); print(h.hf_hub_download('org/name', 'config.json', cache_dir=sys.argv[1], local_files_only=True)); print(h.scan_cache_dir(sys.argv[1]).warnings)"
    read = subprocess.run([python, "-B", "-c", script, tmp_path], capture_output=True, text=True, timeout=120)
    assert read.returncode == 0, read.stderr
    assert read.stdout.split("\n")[:3] == [done.stdout.strip(), done.stdout.strip() + "/config.json", "[]"]


def test_the_cache_that_huggingface_hub_wrote_is_read(hub, launch, tmp_path):
    """Its folders and links are ours: pull brings nothing, and the launcher asks nobody."""
    real_model(hub)
    python = pathlib.Path(os.environ["COXSWAIN_E2E_VENVS"]) / "venv-huggingface-hub/bin/python"
    script = "import sys, huggingface_hub as h; print(h.snapshot_download('org/name', cache_dir=sys.argv[1]))"
    wrote = subprocess.run([python, "-B", "-c", script, tmp_path], env={"PATH": os.environ["PATH"], **variables(hub, tmp_path)},
                           capture_output=True, text=True, timeout=120)
    assert wrote.returncode == 0, wrote.stderr
    assert hub.asked["store"]
    hub.asked.clear()
    launcher = launch(model="org/name", environment=variables(hub, tmp_path)).wait_ready()
    assert launcher.get("/info").json()["model_id"] == "org/name"
    assert launcher.stop() == 0 and not hub.asked
    done = pull(hub, tmp_path)
    check_whole(hub, done)
    assert done.stdout.strip() == wrote.stdout.strip() and not hub.asked["store"]
