#!/usr/bin/env python3
"""Compares every #include of ours with the module rows of the CMake files.

A header may include PUBLIC modules of its row, a .cc file also PRIVATE ones, a test also TEST_MODULES. A module may name only
modules of lower rank (the table below, from ARCHITECTURE.md). include/coxswain and base may be used by all.
"""

import pathlib
import re
import sys

RANK = {
    "base": 1, "telemetry": 2, "json": 2, "options": 2, "tensor": 2, "kvcache": 2,
    "http": 3, "supervise": 3, "tokenizer": 3, "chat": 3, "kernels": 3, "batch": 3,
    "weights": 4, "kvstore": 4, "rpc": 4, "model": 5, "sampling": 5, "runner": 6, "router": 7, "apps": 8,
}
KEYWORDS = {"SOURCES", "PUBLIC", "PRIVATE", "LIBS", "PUBLIC_LIBS", "TESTS", "TEST_MODULES", "TEST_LIBS"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def rows(root):
    found = {}
    for path in sorted(root.glob("src/*/CMakeLists.txt")):
        text = re.sub(r"#.*", "", path.read_text())
        match = re.search(r"coxswain_add_module\((.*?)\)", text, re.S)
        if not match:
            continue
        words = match.group(1).split()
        row, current = {k: [] for k in KEYWORDS}, None
        for word in words[1:]:
            if word in KEYWORDS:
                current = word
            else:
                row[current].append(word)
        found[words[0]] = row
    return found


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    modules, errors, checked = rows(root), [], 0
    for name, row in modules.items():
        if name not in RANK:
            errors.append(f"src/{name}: no rank; add it to scripts/check_layers.py and ARCHITECTURE.md")
            continue
        for used in row["PUBLIC"] + row["PRIVATE"]:
            if RANK.get(used, 99) >= RANK[name]:
                errors.append(f"src/{name}/CMakeLists.txt: {name} (rank {RANK[name]}) may not use {used} (rank {RANK.get(used)})")
        folder = root / "src" / name
        for path in sorted(folder.rglob("*")):
            if path.suffix not in {".h", ".cc", ".inc"}:
                continue
            allowed = {name, "base", *row["PUBLIC"]}
            is_test = path.name.endswith("_test.cc") or "testing" in path.parts
            if path.suffix != ".h" or is_test:
                allowed |= set(row["PRIVATE"])
            if is_test:
                allowed |= set(row["TEST_MODULES"])
            for include in INCLUDE.findall(path.read_text(errors="replace")):
                checked += 1
                target = include.split("/")[0]
                if "/" not in include or target not in RANK:
                    continue  # generated or local headers
                if target not in allowed:
                    errors.append(f'{path.relative_to(root)}: "{include}" is not among the modules of its row')
    for path in sorted((root / "include").rglob("*.h")):
        for include in INCLUDE.findall(path.read_text()):
            errors.append(f'{path.relative_to(root)}: the public API includes "{include}"')
    print("\n".join(errors))
    print(f"{len(modules)} modules, {checked} includes, {len(errors)} errors")
    return 1 if errors or not modules else 0


if __name__ == "__main__":
    sys.exit(main())
