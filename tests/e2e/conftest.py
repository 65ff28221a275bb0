import json
import os
import pathlib
import signal
import subprocess

import pytest

import hosts
from demo import ASKS_FOR_A_TOOL, MESSAGES, PROMPT, TOOLS, WEATHER_RESULT
from launcher import Launcher
from machines import Fleet
from process_tree import describe_descendants, kill_descendants

HERE = pathlib.Path(__file__).resolve().parent

# Of one test with its fixtures; the slowest takes a fifth of it on two cores.
LIMIT_SECONDS = int(os.environ.get("COXSWAIN_E2E_LIMIT", "300"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """A test that hangs fails and says what its processes did. Their end wakes who waits for them. It is the last test: what hangs
    may be shared by all."""

    def end(_signal, _frame):
        item.session.shouldfail = f"{item.nodeid} hung\n{describe_descendants()}\n"
        kill_descendants()
        pytest.fail(f"takes longer than {LIMIT_SECONDS} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_SECONDS, 10)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


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


@pytest.fixture
def fleet(tmp_path_factory):
    """Machines that end with the test."""
    made = Fleet(tmp_path_factory.mktemp("f"))
    yield made
    made.stop()


HOSTS_ARE = pytest.StashKey[str]()


@pytest.fixture
def fleet_of_hosts(tmp_path_factory, pytestconfig):
    """As fleet, on machines of their own where that can be. The test is on that of the router."""
    with hosts.on_hosts() as (there, kind):
        pytestconfig.stash[HOSTS_ARE] = kind
        made = Fleet(tmp_path_factory.mktemp("f"), there)
        yield made
        made.stop()


@pytest.fixture
def fleet_of_links(fleet_of_hosts, pytestconfig):
    if isinstance(fleet_of_hosts.host("router"), hosts.Loopback):
        pytest.skip("no links to cut: the machines are " + pytestconfig.stash[HOSTS_ARE])
    return fleet_of_hosts


def pytest_terminal_summary(terminalreporter, config):
    if HOSTS_ARE in config.stash:
        terminalreporter.write_line("Machines of a fleet were " + config.stash[HOSTS_ARE])


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


# The folder of those environments that scripts/check.sh --full alone makes.
FULL_VENVS = os.environ.get("COXSWAIN_E2E_FULL_VENVS")


def run_script(server, python, name):
    """What clients/NAME_client.py prints: {case: what it returned}."""
    script = HERE / "clients" / (name.replace("-", "_") + "_client.py")
    tools = {"messages": ASKS_FOR_A_TOOL, "tools": TOOLS, "result": WEATHER_RESULT}
    done = subprocess.run([python, "-B", script, server.url, PROMPT, json.dumps(MESSAGES), json.dumps(tools)],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def client_runner(server, folder, suffix):
    results = {}

    def run(environment, script=None):
        name = script or environment
        if name not in results:
            results[name] = run_script(server, pathlib.Path(folder) / f"venv-{environment}{suffix}/bin/python", name)
        return results[name]

    return run


@pytest.fixture(scope="session", params=["newest", *(["2025"] if FULL_VENVS else [])])
def run_client(server, request):
    """run_client(NAME) runs clients/NAME_client.py, or that of `script`, in the client's environment against the server:
    {case: what it returned}. With scripts/check.sh --full once more with the versions of a year ago."""
    return client_runner(server, os.environ["COXSWAIN_E2E_VENVS"], "") if request.param == "newest" else client_runner(server, FULL_VENVS, "-2025")


@pytest.fixture(scope="session", params=["", "-2025"], ids=["newest", "2025"])
def run_full_client(server, request):
    """As run_client, for clients that only scripts/check.sh --full runs."""
    if not FULL_VENVS:
        pytest.skip("only with scripts/check.sh --full")
    return client_runner(server, FULL_VENVS, request.param)
