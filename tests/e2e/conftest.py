import json
import os
import pathlib
import subprocess

import pytest

from demo import ASKS_FOR_A_TOOL, MESSAGES, PROMPT, TOOLS, WEATHER_RESULT
from launcher import Launcher

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture
def launch():
    """launch(...) starts a launcher that the test owns; see Launcher for the arguments."""
    started = []

    def start(*arguments, **more):
        launcher = Launcher(arguments, **more)
        started.append(launcher)
        return launcher.start()

    yield start
    for launcher in reversed(started):
        launcher.dispose()


@pytest.fixture(scope="session")
def server():
    """A launcher with the demo model for all tests that only send requests."""
    launcher = Launcher().start()
    try:
        yield launcher.wait_ready()
        assert launcher.stop() == 0, launcher.log()
    finally:
        launcher.dispose()


@pytest.fixture(scope="session")
def reference_models():
    """Folder of the small trained models with their expected answers."""
    data = os.environ.get("COXSWAIN_DATA")
    if not data:
        pytest.skip("COXSWAIN_DATA is not set")
    folder = pathlib.Path(data) / "models"
    if not folder.is_dir():
        pytest.skip(f"{folder} is missing")
    return folder


@pytest.fixture(scope="session")
def run_client(server):
    """run_client(NAME) runs clients/NAME_client.py, or that of `script`, in the client's environment against the server:
    {case: what it returned}."""
    results = {}

    def run(environment, script=None):
        name = script or environment
        if name not in results:
            python = pathlib.Path(os.environ["COXSWAIN_E2E_VENVS"]) / f"venv-{environment}/bin/python"
            script = HERE / "clients" / (name.replace("-", "_") + "_client.py")
            tools = {"messages": ASKS_FOR_A_TOOL, "tools": TOOLS, "result": WEATHER_RESULT}
            done = subprocess.run([python, "-B", script, server.url, PROMPT, json.dumps(MESSAGES), json.dumps(tools)],
                                  capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stdout + done.stderr
            results[name] = json.loads(done.stdout)
        return results[name]

    return run
