"""Replicas share one copy of the weights, whichever of them made it, and whichever dies."""

import os
import pathlib
import re
import signal

from demo import PROMPT
from fleet_work import answer_of, bodies
from process_tree import wait_until
from test_fleet import expect_answers
from test_fleet_scaling import LONG, ZERO, shard_pids, wait_zero

# So little that there is no room for copies where shared memory has small pages: weights are shared on every machine.
LITTLE = ("--memory-bytes-max", str(900 << 20), "--kv-cache-bytes-max", str(99 << 20),
          "--kv-handover-bytes-max", str(1 << 20))
REPLICAS = ("--replicas", "3", "--threads", "1", *LITTLE)
NAME = "/memfd:coxswain-weights"
SHARED = re.compile(r"Shared weights: .* of 3 replicas, (filled|mapped) in .* from=(replica-\d)")


def rollup(pid):
    """{"Pss_Shmem": bytes, ...}"""
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}


def mappings(pid):
    """(inode, bytes) of each mapping of the shared file."""
    out = []
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        if NAME in line:
            span, permissions, _, _, inode = line.split()[:5]
            assert "w" not in permissions, line
            begin, end = (int(x, 16) for x in span.split("-"))
            out.append((int(inode), end - begin))
    return out


def pid_of_replica(launcher, name):
    suffix = "/shard" if name == "replica-0" else f"-{name}"
    for pid in shard_pids(launcher):
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        if any(w.startswith("--uds-path=") and w.endswith(suffix) for w in words):
            return pid
    raise AssertionError(f"no {name}")


def shared_file(launcher):
    """Of the launcher: (inode, bytes of memory)."""
    for fd in pathlib.Path(f"/proc/{launcher.process.pid}/fd").iterdir():
        if NAME in os.readlink(fd):
            about = os.stat(fd)
            return about.st_ino, about.st_blocks * 512
    raise AssertionError("the launcher has no such file")


def test_three_replicas_have_one_copy(launch, server):
    fleet = launch(*REPLICAS).wait_ready()
    pids = shard_pids(fleet)
    assert len(pids) == 3
    size = {bytes_ for pid in pids for _, bytes_ in mappings(pid)}
    assert {inode for pid in pids for inode, _ in mappings(pid)} == {shared_file(fleet)[0]}
    assert len(size) == 1
    in_all = sum(rollup(pid)["Pss_Shmem"] for pid in pids)
    assert 0 < in_all <= size.pop(), "each of three counts a third of it"
    assert sorted(how for how, _ in SHARED.findall(fleet.out())) == ["filled", "mapped", "mapped"]
    assert "shared by 3 replicas" in fleet.out()

    work = bodies()
    expected = [answer_of(server, path, body) for path, body in work]
    expect_answers(fleet, work, expected, range(len(work)))

    # Who made it may go.
    maker = next(who for how, who in SHARED.findall(fleet.out()) if how == "filled")
    old = pid_of_replica(fleet, maker)
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: SHARED.findall(fleet.out())[-1] == ("mapped", maker), LONG, fleet.log)
    wait_until(lambda: fleet.out().count("Shard ready in ") == 4, LONG, fleet.log)
    assert old not in shard_pids(fleet)
    assert mappings(pid_of_replica(fleet, maker))[0][0] == shared_file(fleet)[0]
    expect_answers(fleet, work, expected, range(len(work)))
    assert fleet.stop() == 0, fleet.log()


def test_at_zero_the_memory_is_free(launch, server):
    one = ("/generate", {"inputs": PROMPT, "parameters": {"max_new_tokens": 40}})
    expected = answer_of(server, *one)
    fleet = launch(*ZERO, *LITTLE).wait_ready()
    for n in range(1, 3):
        assert shared_file(fleet)[1] > 0
        assert [how for how, _ in SHARED.findall(fleet.out())].count("filled") == n
        wait_zero(fleet)
        assert shared_file(fleet)[1] == 0
        assert answer_of(fleet, *one) == expected
    assert fleet.stop() == 0, fleet.log()


def test_a_single_replica_has_its_own_copy(server):
    assert mappings(server.shard_pid()) == []
    assert rollup(server.shard_pid())["Pss_Shmem"] == 0
    assert "Shared weights" not in server.out() and "shared by" not in server.out()
