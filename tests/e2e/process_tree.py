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


def _descendants():
    """Ids of the processes that this one or one of those has started."""
    parents = {}
    for folder in pathlib.Path("/proc").iterdir():
        stat = _read(folder / "stat") if folder.name.isdigit() else None
        if stat:
            parents[int(folder.name)] = int(stat.rsplit(b")", 1)[1].split()[1])

    def is_descendant(pid):
        while pid in parents and parents[pid] != os.getpid():
            pid = parents[pid]
        return pid in parents

    return [pid for pid in parents if is_descendant(pid)]


def describe_descendants():
    """What each process that comes from this one runs, and its threads: name, state, seconds of CPU time, where it sleeps."""
    lines = []
    for pid in _descendants():
        command = _read(pathlib.Path(f"/proc/{pid}/cmdline")) or b""
        lines.append(f"{pid} {command.replace(bytes(1), b' ').decode(errors='replace')[:300]}")
        for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
            stat, name, where = (_read(task / part) or b"" for part in ("stat", "comm", "wchan"))
            if not stat:
                continue
            fields = stat.rsplit(b")", 1)[1].split()
            seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            lines.append(f"  {name.decode().strip():16} {fields[0].decode()} {seconds:9.2f} s  {where.decode()}")
    return "\n".join(lines)


def kill_descendants():
    for pid in _descendants():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
