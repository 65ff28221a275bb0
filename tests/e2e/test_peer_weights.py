"""A shard takes its packed weights from another one, serves while they arrive, and goes on whoever dies."""

import os
import random
import shutil
import signal
import subprocess
import time

import pytest

from demo import MODEL
from fleet_work import answer_of, bodies
from launcher import BIN, CAUSE, Launcher
from process_tree import wait_until
from test_fleet import expect_answers

SECONDS = 60
# Of the demo model's 6 MB.
SLOW = ("--weights-rate-max-bytes", str(2 << 20))
ARRIVED = "All weights are there"
HERE = "the rest of the weights is loaded here"


@pytest.fixture
def launch_at():
    """launch_at(..., sources=[...]) starts a launcher whose shard has its socket at a known place, and loads from those."""
    started = []

    def start(*arguments, sources=()):
        words = [*arguments]
        if sources:
            words += ["--weights-from", from_(sources)]
        launcher = Launcher(words)
        launcher.command += ["--shard-uds-path", f"{launcher.folder}/s"]
        started.append(launcher)
        return launcher.start().wait_ready()

    yield start
    for launcher in reversed(started):
        launcher.dispose()


def from_(sources):
    return ",".join(f"unix://{s.folder}/s-0" for s in sources)


def say(launcher, text):
    return text in launcher.out()


def test_tokens_come_while_weights_arrive(launch_at, server):
    source = launch_at(*SLOW)
    work = bodies()[:6]
    expected = [answer_of(server, *each) for each in work]
    second = launch_at(sources=[source])
    assert say(second, "Weights arrive while requests are served"), second.log()
    expect_answers(second, work, expected, range(len(work)))
    wait_until(lambda: say(second, ARRIVED), SECONDS, second.log)
    assert not say(second, HERE)
    expect_answers(second, work, expected, range(len(work)))
    assert second.stop() == 0 and source.stop() == 0


def test_a_chain_whose_middle_still_loads(launch_at, server):
    first = launch_at(*SLOW)
    middle = launch_at(sources=[first])
    assert not say(middle, ARRIVED), "the middle was to be loading still"
    last = launch_at(sources=[middle])
    work = bodies()[:6]
    expected = [answer_of(server, *each) for each in work]
    expect_answers(last, work, expected, range(len(work)))
    for launcher in (middle, last):
        wait_until(lambda: say(launcher, ARRIVED), SECONDS, launcher.log)
        assert not say(launcher, HERE)
    for launcher in (last, middle, first):
        assert launcher.stop() == 0


def test_a_source_that_is_killed_anywhere(launch_at, server):
    work = bodies()[:4]
    expected = [answer_of(server, *each) for each in work]
    source = launch_at(*SLOW)
    rng = random.Random(5)
    for _ in range(3):
        second = launch_at(sources=[source])
        time.sleep(rng.uniform(0, 2))  # anywhere in the load, which takes 3 s
        old = source.shard_pid()
        os.kill(old, signal.SIGKILL)
        expect_answers(second, work, expected, range(len(work)))
        wait_until(lambda: say(second, ARRIVED), SECONDS, second.log)
        assert second.stop() == 0
        # Its launcher starts another one, which is a source as the first was.
        wait_until(lambda: source.shard_pid() not in (None, old) and source.is_healthy(), SECONDS, source.log)
    assert source.stop() == 0


def test_other_weights_are_refused_and_loaded_here(launch_at, server):
    source = launch_at("--quantize", "int8")
    other = launch_at(sources=[source])
    assert "the weights here are others: `quantize int8`. Wanted: `quantize `" in other.out()
    assert "weights are loaded here: no other shard sends weights" in other.out()
    work = bodies()[:2]
    expect_answers(other, work, [answer_of(server, *each) for each in work], range(len(work)))
    assert other.stop() == 0 and source.stop() == 0


def test_nothing_is_left_to_load_from(launch_at):
    """The source dies, and the checkpoint is damaged: the shard ends as one that cannot start."""
    source = launch_at("--weights-rate-max-bytes", str(256 << 10))
    model = source.folder / "model"
    shutil.copytree(MODEL, model)
    shard = subprocess.Popen([BIN / "text-generation-server", "serve", model, "--uds-path", source.folder / "other",
                              "--weights-from", from_([source])], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until((source.folder / "other-0").exists, SECONDS, "the socket of the second shard")
        os.truncate(model / "model.safetensors", 100_000)
        assert source.stop() == 0
        out, err = shard.communicate(timeout=SECONDS)
    finally:
        shard.kill()
        shard.wait()
    assert shard.returncode not in (0, -signal.SIGKILL), out
    assert CAUSE.fullmatch(err.splitlines()[0])[1] == "ShardCannotStart", err
    assert "model.safetensors" in err
