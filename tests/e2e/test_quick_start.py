"""The quick start of README.md, as pasted; only the port is another one, because somebody may use the usual one."""

import json
import re
import shutil
import socket
import subprocess

import pytest

from demo import ROOT
from launcher import BIN, Launcher

COMMANDS = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def commands():
    """The fenced blocks behind the mark: the first starts the server, the second asks it, the third is the answer's text."""
    text = (ROOT / "README.md").read_text()
    assert "<!-- quickstart -->" in text, "README.md lost the mark of its quick start"
    blocks = COMMANDS.findall(text.split("<!-- quickstart -->", 1)[1])[:3]
    assert len(blocks) == 3, "the quick start needs a start, a question and its answer"
    return blocks


def test_commands(commands):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    if BIN.resolve() != ROOT / "build/release/bin":
        pytest.skip(f"scripts/serve.sh would start other programs than {BIN}")
    start, ask, shown = commands
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Launcher(environment={"PORT": str(port), "HOME": str(ROOT / "build")})
    server.command = ["bash", "-c", f"cd {ROOT} && {start}"]
    try:
        server.start()
        server.wait_ready()
        assert ":3000/" in ask
        done = subprocess.run(["bash", "-c", ask.replace(":3000/", f":{port}/")], capture_output=True, text=True, timeout=60)
        answer = json.loads(done.stdout)
        assert answer["choices"][0]["message"]["content"].strip() == shown.strip()
        assert answer["choices"][0]["finish_reason"] == "stop"
        server.terminate()
        assert server.wait_exit() == 0
        server.check_nothing_left()
    finally:
        server.dispose()


def test_a_start_with_nothing_to_build_says_nothing_about_it():
    if BIN.resolve() != ROOT / "build/release/bin":
        pytest.skip(f"scripts/serve.sh would start other programs than {BIN}")
    outs = [subprocess.run(["bash", ROOT / "scripts/serve.sh", "--version"], capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert outs[1].startswith("text-generation-launcher ") and len(outs[1].splitlines()) == 1, outs
