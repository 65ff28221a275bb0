#!/usr/bin/env python3
"""Runs clang-tidy over .cc files and remembers the clean ones, so that the whole tree can be checked often.

    scripts/tidy.py [-j JOBS] [FILE...]      all files below src, tests and bench without FILE

Needs the release preset built: its compile commands and the includes that ninja recorded for them. A file is clean as long as its
command, .clang-tidy, clang-tidy's version and the contents of all that it includes are the same; findings are never remembered.
Where the packages libclang-16-dev and llvm-16-dev are installed, system headers are not visited (tidy_scope.cc): the same findings in a
third of the time.
Environment: CCACHE_DIR  the memory is its folder `tidy`
"""
import argparse, concurrent.futures, functools, hashlib, json, os, pathlib, re, subprocess, sys, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/release"
XDG = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
CACHE = pathlib.Path(os.environ.get("CCACHE_DIR") or XDG / "ccache")
KEPT_DAYS = 30
TOOL = "clang-tidy-16"
SCOPE = ROOT / "scripts/tidy_scope.cc"
LLVM = pathlib.Path("/usr/lib/llvm-16/include")
# Flags that only g++ knows.
GCC_ONLY = re.compile(r" (-fno-tree-[a-z-]*|-Wno-maybe-uninitialized|-Wno-restrict)\b")
OUTPUT = re.compile(r" -o (\S+)")


@functools.lru_cache(maxsize=None)
def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def recorded_includes():
    """{object: files it was built from}, as ninja knows them."""
    out, current = {}, None
    for line in subprocess.run(["ninja", "-C", str(BUILD), "-t", "deps"], capture_output=True, text=True).stdout.splitlines():
        if line.startswith("    "):
            current.append(os.path.normpath(BUILD / line.strip()))
        elif ": #deps" in line:
            current = out.setdefault(line.split(": #deps")[0], [])
            if not line.endswith("(VALID)"):
                current.append("/out of date")
    return out


def key_of(entry, includes, version):
    """None if something about the file is not known."""
    try:
        contents = sorted(digest(path) + path.replace(str(ROOT), "") for path in includes[OUTPUT.search(entry["command"])[1]])
    except (KeyError, OSError):
        return None
    text = [version, digest(ROOT / ".clang-tidy"), digest(SCOPE), entry["command"].replace(str(ROOT), ""), *contents]
    return hashlib.sha256("\n".join(text).encode()).hexdigest()


def scope_arguments(version):
    """What loads the plugin; nothing where it cannot be built for want of headers."""
    if not (LLVM / "clang").exists() or not (LLVM / "llvm").exists():
        return []
    plugin = CACHE / "tidy" / f"scope-{hashlib.sha256((version + digest(SCOPE)).encode()).hexdigest()}.so"
    if not plugin.exists():
        part = plugin.with_suffix(f".{os.getpid()}")
        subprocess.run(["g++", "-std=c++17", "-O1", "-fPIC", "-shared", "-fno-rtti", "-isystem", LLVM, "-o", part, SCOPE], check=True)
        part.rename(plugin)
    plugin.touch()
    return [f"-load={plugin}"]


def memory(name):
    """The folder of that name beside the compiler cache; what was not asked for lately is gone."""
    folder = CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    for mark in folder.iterdir():
        if mark.stat().st_mtime < time.time() - KEPT_DAYS * 86400:
            mark.unlink(missing_ok=True)
    return folder


def check(file, key, scope):
    mark = CACHE / "tidy" / key if key else None
    if mark and mark.exists():
        mark.touch()
        return "known", ""
    run = subprocess.run([TOOL, *scope, "-p", "build/tidy", "--quiet", "--extra-arg=-Wno-unknown-warning-option", file],
                         cwd=ROOT, capture_output=True, text=True)
    if run.returncode != 0:
        return "finding", run.stdout or run.stderr  # stderr only counts warnings of system headers
    if mark:
        mark.touch()
    return "clean", ""


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("-j", type=int, default=os.cpu_count(), dest="jobs")
    args.add_argument("files", nargs="*")
    args = args.parse_args()
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    for entry in commands:
        entry["command"] = GCC_ONLY.sub("", entry["command"])
    (ROOT / "build/tidy").mkdir(exist_ok=True)
    (ROOT / "build/tidy/compile_commands.json").write_text(json.dumps(commands))
    memory("tidy")

    ours = {os.path.relpath(entry["file"], ROOT): entry for entry in commands if "build" not in os.path.relpath(entry["file"], ROOT)}
    version = subprocess.run([TOOL, "--version"], capture_output=True, text=True).stdout
    includes = recorded_includes()
    scope = scope_arguments(version)
    files = [file for file in args.files or sorted(ours) if file in ours]
    counts = {"known": 0, "clean": 0, "finding": 0}
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for file, (what, text) in zip(files, pool.map(lambda f: check(f, key_of(ours[f], includes, version), scope), files)):
            counts[what] += 1
            if what == "finding":
                print(f"{file}:\n{text}", flush=True)
    print(f"{len(files)} files: {counts['clean']} clean, {counts['known']} known to be clean, {counts['finding']} with findings"
          + (f"; {len(args.files) - len(files)} are no part of the release build" if len(args.files) > len(files) else ""))
    return 1 if counts["finding"] else 0


if __name__ == "__main__":
    sys.exit(main())
