"""The machine: what it is, what its limits are at this moment, and what other programs take of it."""
import pathlib
import re
import subprocess
import time


def cpu_seconds():
    """(busy, idle) of all CPUs since the machine started."""
    user, nice, system, idle, iowait, irq, softirq, steal = map(
        int, pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / 100, (idle + iowait) / 100


def own_seconds(pids):
    """CPU time of these processes and of what they have waited for; 0 for those that are gone."""
    total = 0
    for pid in pids:
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) / 100
        except OSError:
            pass
    return total


def wait_for_quiet(share_max, seconds_max):
    """Until the CPUs are idle but for `share_max` during a second; what they were busy with at last."""
    deadline = time.monotonic() + seconds_max
    while True:
        busy, idle = cpu_seconds()
        time.sleep(1)
        busy_then, idle_then = cpu_seconds()
        share = (busy_then - busy) / max(busy_then - busy + idle_then - idle, 1e-9)
        if share <= share_max or time.monotonic() > deadline:
            return share


def limits(bench_kernels, n_threads):
    """Bytes/s read, and multiply-add peaks in operations/s (two for each multiply-add), measured now."""
    text = subprocess.run([bench_kernels, "--only", "none", "--threads", str(n_threads)],
                          check=True, capture_output=True, text=True).stdout
    read = float(re.search(r"read ([\d.]+) GB/s", text)[1]) * 1e9
    peaks = {name: float(value) * 1e12 for name, value in re.findall(r"(amx bf16|amx int8|f32|bf16|int8) ([\d.]+)", text)}
    return {"read": read, "bf16": max(peaks["bf16"], peaks["amx bf16"], peaks["f32"]),
            "int8": max(peaks["int8"], peaks["amx int8"], peaks["f32"]), "set": re.search(r"set (\S+)", text)[1].rstrip(",")}


def between(before, after):
    """Limits of what ran between two readings."""
    return {key: (value + after[key]) / 2 if key != "set" else value for key, value in before.items()}


def describe():
    cpu = pathlib.Path("/proc/cpuinfo").read_text()
    flags = set(re.search(r"flags\s*: (.*)", cpu)[1].split())
    names = ["avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16"]
    memory = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) / 2**20
    return {"cpu": re.search(r"model name\s*: (.*)", cpu)[1], "family": re.search(r"cpu family\s*: (.*)", cpu)[1],
            "model": re.search(r"model\s*: (.*)", cpu)[1], "cpus": cpu.count("processor\t:"),
            "features": [name for name in names if name in flags], "memory_gib": round(memory, 1),
            "kernel": pathlib.Path("/proc/sys/kernel/osrelease").read_text().strip()}
