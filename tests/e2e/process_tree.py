"""Processes of one test, found by a variable in their environment that children inherit, whoever their parent is now."""

import dataclasses
import os
import pathlib
import signal
import time

TAG_VARIABLE = "COXSWAIN_E2E_TAG"


class Timeout(AssertionError):
    pass


def wait_until(condition, seconds, what):
    """Polls until `condition()` is true and returns its value; fails with `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise Timeout(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.01)


@dataclasses.dataclass(frozen=True)
class Process:
    pid: int
    program: str
    state: str  # letter of /proc/PID/stat: R, S, T, Z, ...


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        return None


def processes_with_tag(tag):
    """Zombies have no environment any more; they are gone for our purposes."""
    wanted = f"{TAG_VARIABLE}={tag}".encode()
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        environment = _read(folder / "environ")
        if not environment or wanted not in environment.split(b"\0"):
            continue
        command = _read(folder / "cmdline")
        stat = _read(folder / "stat")
        if command and stat:
            program = pathlib.Path(command.split(b"\0")[0].decode(errors="replace")).name
            found.append(Process(int(folder.name), program, stat.rsplit(b")", 1)[1].split()[0].decode()))
    return found


def stop_process(pid):
    """Stands still when this returns: a thread that runs takes the signal a little later than it is sent."""
    os.kill(pid, signal.SIGSTOP)

    def stands_still():
        stats = [_read(task / "stat") for task in pathlib.Path(f"/proc/{pid}/task").glob("*")]
        return all(stat is None or stat.rsplit(b")", 1)[1].split()[0] in (b"T", b"Z", b"X") for stat in stats)

    wait_until(stands_still, 10, f"process {pid} stands still")
