"""The verbs of coxswain that serve or talk: serve, plan, chat. In a terminal chat has lines that are edited."""

import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import time
import urllib.request

import pytest

BIN = pathlib.Path(os.environ["COXSWAIN_BIN_DIR"])
STORY = "Tell me a story about a fox and a boat."
SUM = "What is 12 + 30?"


def run(*words, **more):
    return subprocess.run([BIN / "coxswain", *words], capture_output=True, text=True, timeout=120, check=False, **more)


def test_each_line_is_a_message():
    done = run("chat", "demo", input=f"{SUM}\n\n/clear\n{SUM}\n/exit\n{STORY}\n")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.endswith("= 42") and second == first, "/clear forgets what was said"


def test_what_chat_refuses():
    for words, said in ((["nosuch"], "no folder named nosuch"), ([], "needs a MODEL"), (["demo", "--temperature", "hot"], "`hot` is none"),
                        (["demo", "--seed"], "does not understand `--seed`"), (["demo", "--quantize", "int3"], "int3")):
        done = run("chat", *words, input="")
        assert done.returncode in (1, 2) and said in done.stderr, (words, done.stderr)


def test_a_temperature_draws_by_the_seed():
    texts = {seed: run("chat", "demo", "--temperature", "1", "--seed", seed, input=STORY).stdout for seed in ("1", "2", "1")}
    assert texts["1"] != texts["2"]
    assert run("chat", "demo", "--temperature", "1", "--seed", "1", input=STORY).stdout == texts["1"]
    assert run("chat", "demo", "--max-new-tokens", "3", input=STORY).stdout.count(" ") < 5


def test_plan_starts_nothing():
    done = run("plan", "demo", "--port", "9")
    assert done.returncode == 0 and "--port=9" in done.stdout and "memory" in done.stdout


def test_serve_is_for_this_machine():
    with subprocess.Popen([BIN / "coxswain", "serve", "demo", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        said = []
        try:
            for line in server.stdout:
                said.append(line)
                if url := re.search(r"^  url +(http://127\.0\.0\.1:\d+) ", line):
                    break
            assert url and urllib.request.urlopen(f"{url[1]}/health", timeout=60).status == 200
        finally:
            server.terminate()
        said += server.stdout
    assert server.returncode == 0 and not any(" INFO " in line for line in said), said


class Terminal:
    """A chat in a terminal."""

    def __init__(self):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(BIN / "coxswain", ["coxswain", "chat", "demo"], {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"})
        self.seen = b""
        self.status = None

    def type(self, text):
        os.write(self.fd, text.encode())

    def until(self, text):
        """What comes up to the end of `text`; what follows is kept."""
        end = time.monotonic() + 60
        while text.encode() not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.fd], [], [], 1)[0]:
                try:
                    self.seen += os.read(self.fd, 4096)
                except OSError:  # the other end is closed
                    pytest.fail(f"ended: {self.seen}")
        before, _, self.seen = self.seen.partition(text.encode())
        return before.decode()

    def end(self):
        """Its exit status after Ctrl-D, once all that it says was read."""
        self.type("\x04")
        end = time.monotonic() + 60
        try:
            while select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                self.seen += os.read(self.fd, 4096)
            pytest.fail(f"goes on: {self.seen}")
        except OSError:
            pass
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def close(self):
        os.close(self.fd)
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@pytest.fixture
def terminal():
    made = Terminal()
    yield made
    made.close()


def test_a_terminal(terminal):
    whole = run("chat", "demo", input=STORY).stdout.strip()
    terminal.until("> ")
    terminal.type(STORY + "\n")
    terminal.until(STORY + "\r\n")
    terminal.until("Once")
    terminal.type("\x03")  # ends the answer, if it still comes, and nothing else
    # A terminal that takes it drops what nobody has read so far.
    shown = ("Once" + terminal.until("> ")).split("^C")
    assert whole.startswith(shown[0].strip())
    assert all(part.strip().removesuffix("(stopped)").strip() in whole for part in shown)
    terminal.type("an unfinished line ä")
    terminal.until("ä")
    terminal.type("\x03")  # throws the line away
    terminal.until("> ")
    terminal.type(SUM + "\n")
    terminal.until("= 42")
    terminal.until("> ")
    terminal.type("\x1b[A")  # the line before
    terminal.until(SUM)
    terminal.type("\n")
    terminal.until("= 42")
    terminal.until("> ")
    assert terminal.end() == 0


def test_ctrl_d_ends_the_program_behind_the_answer(terminal):
    """Typed while the answer comes, when the terminal is not yet the editor's."""
    terminal.until("> ")
    terminal.type(STORY + "\n")
    terminal.until("Once")
    assert terminal.end() == 0
