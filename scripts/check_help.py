#!/usr/bin/env python3
"""Asks a program for help in both ways: text on stdout that begins with its usage, nothing on stderr, exit code 0."""

import pathlib
import subprocess
import sys


def fault_of(program, flag):
    """What is wrong with the program's answer; None if nothing is."""
    name = pathlib.Path(program).name
    run = subprocess.run([program, flag], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    if run.returncode != 0:
        return f"exit code {run.returncode}: {run.stderr[:500]}"
    if not run.stdout.lower().startswith(f"usage: {name}"):
        return f"stdout begins with {run.stdout[:80]!r}"
    return f"stderr has {run.stderr[:500]!r}" if run.stderr else None


def main():
    faults = {flag: fault_of(sys.argv[1], flag) for flag in ("--help", "-h")}
    for flag, fault in faults.items():
        if fault:
            print(f"{sys.argv[1]} {flag}: {fault}")
    return 1 if any(faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
