"""Starts text-generation-launcher as a user does and keeps what it says."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import uuid

import requests

from demo import MODEL, ROOT
from process_tree import TAG_VARIABLE, processes_with_tag, wait_until

BIN = pathlib.Path(os.environ.get("COXSWAIN_BIN_DIR", ROOT / "build/release/bin"))

# Generous, because machines that run tests are often busy; nothing waits as long as this unless it fails.
START_SECONDS = 60
STOP_SECONDS = 30

URL_ROW = re.compile(r"^  url +(https?://\S+)", re.MULTILINE)

# A failing start says what is wrong in one line and what to do in the next.
CAUSE = re.compile(r'Error: (\w+)\("(.*)"\)')


class Launcher:
    """One run of the launcher in an environment of its own, with its own TMPDIR, so that what it leaves behind is seen."""

    def __init__(self, arguments=(), environment=None, model=MODEL, port=0):
        self.tag = uuid.uuid4().hex
        # Directly below /tmp: paths of Unix sockets must be short.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cx-e2e-", dir="/tmp"))
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.out_path = self.folder / "stdout"
        self.err_path = self.folder / "stderr"
        command = [str(BIN / "text-generation-launcher")]
        if model is not None:
            command += ["--model-id", str(model)]
        if port is not None:
            command += ["--port", str(port), "--hostname", "127.0.0.1"]
        self.command = command + [str(a) for a in arguments]
        self.environment = {
            "PATH": os.environ["PATH"],
            "TMPDIR": str(self.temporary),
            TAG_VARIABLE: self.tag,
            **(environment or {}),
        }
        self.process = None
        self.url = None

    # -- life

    def start(self, stdin=subprocess.DEVNULL):
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen(
                self.command, env=self.environment, cwd=self.folder, stdin=stdin, stdout=out, stderr=err,
                start_new_session=True)
        return self

    def wait_ready(self):
        """Until the start-up block is out and /health answers 200."""

        def url_or_exit():
            assert self.process.poll() is None, f"the launcher ended with {self.process.returncode}\n{self.log()}"
            return URL_ROW.search(self.out())

        self.url = wait_until(url_or_exit, START_SECONDS, lambda: "start-up block\n" + self.log())[1]
        wait_until(self.is_healthy, START_SECONDS, lambda: "healthy\n" + self.log())
        return self

    def wait_exit(self, seconds=STOP_SECONDS):
        wait_until(lambda: self.process.poll() is not None, seconds, lambda: "exit\n" + self.log())
        return self.process.returncode

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def stop(self):
        """Ends it as a user would and checks that nothing is left of it."""
        if self.process.poll() is None:
            self.terminate()
        code = self.wait_exit()
        self.check_nothing_left()
        return code

    def check_nothing_left(self, seconds=5):
        wait_until(lambda: not self.processes(), seconds, lambda: f"children gone: {self.processes()}\n{self.log()}")
        assert list(self.temporary.iterdir()) == [], self.log()

    def dispose(self):
        """Whatever happened: no process, no folder."""
        for process in self.processes():
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.process is not None:
            self.process.wait()
        wait_until(lambda: not self.processes(), STOP_SECONDS, "killed processes gone")
        shutil.rmtree(self.folder)

    # -- what it says

    def out(self):
        return self.out_path.read_text(errors="replace")

    def err(self):
        return self.err_path.read_text(errors="replace")

    def log(self):
        return f"{' '.join(self.command)}\n--- stdout\n{self.out()[-6000:]}\n--- stderr\n{self.err()[-4000:]}"

    # -- what it runs

    def processes(self):
        return [p for p in processes_with_tag(self.tag) if p.state != "Z"]

    def pid_of(self, program):
        """Of the one child of that name; None if there is none right now."""
        pids = [p.pid for p in self.processes() if p.program == program]
        assert len(pids) <= 1, f"{len(pids)} processes {program}"
        return pids[0] if pids else None

    def shard_pid(self):
        return self.pid_of("text-generation-server")

    def router_pid(self):
        return self.pid_of("text-generation-router")

    # -- HTTP

    def get(self, path, **more):
        return requests.get(self.url + path, timeout=60, **more)

    def post(self, path, body, **more):
        return requests.post(self.url + path, json=body, timeout=60, **more)

    def is_healthy(self):
        try:
            return self.get("/health").status_code == 200
        except requests.ConnectionError:
            return False

    def metrics(self):
        """{'name' or 'name{label="value"}': value}"""
        lines = self.get("/metrics").text.splitlines()
        return {name: float(value) for name, value in (l.rsplit(" ", 1) for l in lines if l and not l.startswith("#"))}


def failed_start(launcher):
    """(exit code, variant, cause, cure) of a launcher that is expected to give up by itself."""
    code = launcher.wait_exit()
    launcher.check_nothing_left()
    lines = launcher.err().splitlines()
    assert len(lines) == 2, launcher.log()
    match = CAUSE.fullmatch(lines[0])
    assert match, launcher.log()
    assert lines[1].strip() and not lines[1].startswith("Error"), launcher.log()
    return code, match[1], json.loads(f'"{match[2]}"'), lines[1]
