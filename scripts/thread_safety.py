#!/usr/bin/env python3
"""Checks the contracts of locks (src/base/mutex.h) with clang's -Wthread-safety, and that all locks have one.

    scripts/thread_safety.py [-j JOBS]

Looked at is every .cc file below src, bench and tests that includes base/mutex.h, or one of our headers that does. Outside of
base/mutex.h nobody may use std::mutex and its relatives, which the compiler knows nothing about.
Needs the release preset built, for its compile commands. Clean files are remembered as scripts/tidy.py remembers them.
Environment: CCACHE_DIR  the memory is its folder `thread-safety`
"""
import argparse, concurrent.futures, json, os, re, shlex, subprocess, sys

from tidy import BUILD, GCC_ONLY, ROOT, digest, key_of, memory, recorded_includes

TOOL = "clang++-16"
FLAGS = ["-fsyntax-only", "-Wno-everything", "-Wthread-safety", "-Werror=thread-safety"]
WRAPPER = "src/base/mutex.h"
BARE = re.compile(r"\bstd::(?:\w+_)?mutex\b|\bstd::condition_variable\b|\bstd::(?:lock_guard|scoped_lock|shared_lock)\b")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


def sources():
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.h", "*.cc"],
                           cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return {name: (ROOT / name).read_text() for name in names if (ROOT / name).exists()}


def bare_locks(texts):
    for name, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            if name != WRAPPER and BARE.search(line.split("//")[0]):
                yield f"{name}:{number}: {BARE.search(line)[0]}: use base/mutex.h"


def files_with_locks(texts):
    own = lambda text: {include for include in INCLUDE.findall(text)}
    headers = {name.removeprefix("src/") for name, text in texts.items() if name.endswith(".h") and "base/mutex.h" in own(text)}
    headers.add("base/mutex.h")
    return sorted(name for name, text in texts.items() if name.endswith(".cc") and own(text) & headers)


def check(entry, mark):
    if mark and mark.exists():
        mark.touch()
        return "known", ""
    words = shlex.split(GCC_ONLY.sub("", entry["command"]))[1:]
    flags = [word for word in words[:words.index("-o")] if not word.startswith("-W")]
    run = subprocess.run([TOOL, *flags, *FLAGS, entry["file"]], cwd=entry["directory"], capture_output=True, text=True)
    if run.returncode != 0:
        return "finding", run.stderr
    if mark:
        mark.touch()
    return "clean", ""


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("-j", type=int, default=os.cpu_count(), dest="jobs")
    args = args.parse_args()
    texts = sources()
    findings = list(bare_locks(texts))
    print("\n".join(findings), end="\n" if findings else "")

    cache = memory("thread-safety")
    version = subprocess.run([TOOL, "--version"], capture_output=True, text=True).stdout + " ".join(FLAGS) + digest(__file__)
    commands = {os.path.relpath(entry["file"], ROOT): entry for entry in json.loads((BUILD / "compile_commands.json").read_text())}
    files = [name for name in files_with_locks(texts) if name in commands]
    includes = recorded_includes()
    keys = [key_of(commands[name], includes, version) for name in files]
    counts = {"known": 0, "clean": 0, "finding": 0}
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        marks = [cache / key if key else None for key in keys]
        for name, (what, text) in zip(files, pool.map(lambda f, m: check(commands[f], m), files, marks)):
            counts[what] += 1
            if what == "finding":
                print(f"{name}:\n{text}", flush=True)
    print(f"{len(files)} files with locks: {counts['clean']} clean, {counts['known']} known to be clean, "
          f"{counts['finding']} with findings; {len(findings)} locks without a contract")
    return 1 if findings or counts["finding"] else 0


if __name__ == "__main__":
    sys.exit(main())
