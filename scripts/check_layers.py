#!/usr/bin/env python3
"""Compares every #include of ours with the rows of the CMake files, and the rows with the ranks.

Ranks stand in src/CMakeLists.txt alone: each line of its list `modules` is one rank. A module may name only modules of
lower rank. Its headers may include PUBLIC modules of its row, its .cc files also PRIVATE ones, its tests also TEST_MODULES.
include/coxswain and base may be used by all. Programs (src/apps, bench, tests/conformance) and fuzz targets may include
what their rows name, and headers of their own folder.

Also: ARCHITECTURE.md shows the same ranks, and a program links nothing that it must not (FORBIDDEN).
"""

import pathlib
import re
import sys

KEYWORDS = {"SOURCES", "PUBLIC", "PRIVATE", "LIBS", "PUBLIC_LIBS", "TESTS", "TEST_MODULES", "TEST_LIBS", "MODULES"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
PROGRAM_FOLDERS = ["src/apps", "bench", "tests/conformance", "tests/fuzz"]

# What must not be linked, directly or through a module: the launcher stays small, the router holds no weights.
FORBIDDEN = {
    "text-generation-launcher": {"batch", "http", "kernels", "model", "router", "rpc", "runner", "tokenizer"},
    "text-generation-router": {"kernels", "kvstore", "model", "runner", "sampling", "weights"},
}


def modules_by_rank(root):
    """{"base": 1, ...}: the first list `modules` of src/CMakeLists.txt, a line for each rank."""
    text = (root / "src/CMakeLists.txt").read_text()
    body = re.search(r"^set\(modules\n(.*?)\)", text, re.S | re.M).group(1)
    lines = [re.sub(r"#.*", "", line).split() for line in body.splitlines()]
    return {name: rank for rank, names in enumerate(filter(None, lines), 1) for name in names}


def read_rows(path, command):
    """{name: {keyword: [words]}} of each call of `command` in a CMake file, variables of the file filled in."""
    text = re.sub(r"#.*", "", path.read_text())
    for name, value in re.findall(r"^set\((\w+) ([^()]*)\)", text, re.M):
        text = text.replace("${%s}" % name, value)
    found = {}
    for match in re.finditer(r"^" + command + r"\(([^()]*)\)", text, re.M):
        words, current = match.group(1).split(), None
        row = {keyword: [] for keyword in KEYWORDS}
        for word in words[1:]:
            if word in KEYWORDS:
                current = word
            elif current:
                row[current].append(word)
            else:
                row.setdefault("FILES", []).append(word)
        found[words[0]] = row
    return found


class Check:
    def __init__(self, root):
        self.root, self.errors, self.n_includes = root, [], 0
        self.ranks = modules_by_rank(root)
        self.rows = {}
        for name in self.ranks:
            path = root / "src" / name / "CMakeLists.txt"
            if path.exists() and name != "apps":
                self.rows.update(read_rows(path, "coxswain_add_module"))
        # serve/router is the folder of the row serve_router
        self.folder_of = {name.replace("/", "_"): name for name in self.ranks}
        self.rank_of = {name.replace("/", "_"): rank for name, rank in self.ranks.items()}

    def error(self, path, text):
        self.errors.append(f"{path.relative_to(self.root) if isinstance(path, pathlib.Path) else path}: {text}")

    def includes(self, path):
        found = INCLUDE.findall(path.read_text(errors="replace"))
        self.n_includes += len(found)
        return found

    def module_of(self, include):
        """The row whose folder holds the included header, None for one that no module has."""
        parts = include.split("/")[:-1]
        for n in range(len(parts), 0, -1):
            name = "_".join(parts[:n])
            if name in self.rank_of:
                return name
        return None

    def closure(self, names):
        found, open_names = set(), list(names)
        while open_names:
            name = open_names.pop()
            if name not in found:
                found.add(name)
                row = self.rows.get(name, {})
                open_names += row.get("PUBLIC", []) + row.get("PRIVATE", [])
        return found

    def modules(self):
        for name, row in self.rows.items():
            folder = self.root / "src" / self.folder_of.get(name, name)
            if name not in self.rank_of:
                self.error(folder, "no rank; add it to the list of src/CMakeLists.txt")
                continue
            rank = self.rank_of[name]
            for used in row["PUBLIC"] + row["PRIVATE"]:
                if self.rank_of.get(used, rank) >= rank:
                    self.error(folder, f"{name} (rank {rank}) may not use {used} (rank {self.rank_of.get(used)})")
            for path in sorted(folder.rglob("*")):
                if path.suffix in {".h", ".cc", ".inc"} and self.module_of(str(path.relative_to(self.root / "src"))) == name:
                    self.file_of_module(path, name, row)

    def file_of_module(self, path, name, row):
        allowed = {name, "base", *row["PUBLIC"]}
        is_test = path.name.endswith("_test.cc") or "testing" in path.parts
        if path.suffix != ".h" or is_test:
            allowed |= set(row["PRIVATE"])
        if is_test:
            allowed |= set(row["TEST_MODULES"])
        for include in self.includes(path):
            module = self.module_of(include)  # None: a generated or local header
            if module and module not in allowed:
                self.error(path, f'"{include}" is not among the modules of its row')

    def programs(self):
        for folder in (self.root / name for name in PROGRAM_FOLDERS):
            cmake, seen = folder / "CMakeLists.txt", set()
            single_files = read_rows(cmake, "coxswain_add_fuzzed_files")
            for name, row in read_rows(cmake, "coxswain_add_program").items():
                self.program(name, row["SOURCES"], row["MODULES"], folder, seen)
            for name, row in read_rows(cmake, "coxswain_add_fuzzer").items():
                used = [word.removesuffix("_files") for word in row["MODULES"]]
                if any(word.endswith("_files") for word in row["MODULES"]):
                    used.append("json")  # comes with them
                self.program(name, [f"fuzz_{name}.cc"], used, folder, seen)
            for name in single_files:
                if name not in self.rank_of:
                    self.error(cmake, f"files of {name}, which is no module")
            for path in sorted([*folder.rglob("*.cc"), *folder.rglob("*.h")]):
                if path not in seen:
                    self.error(path, "belongs to no program of its folder")

    def program(self, name, sources, used, folder, seen):
        for module in used:
            if module not in self.rank_of:
                self.error(folder, f"{name} names {module}, which is no module")
        for module in sorted(self.closure(used) & FORBIDDEN.get(name, set())):
            self.error(folder, f"{name} must not link {module}")
        allowed, own, open_files = {"base", *used}, set(), [folder / source for source in sources]
        while open_files:
            path = open_files.pop()
            if path in own:
                continue
            own.add(path)
            for include in self.includes(path):
                local = folder / include.removeprefix(folder.name + "/")
                module = self.module_of(include)
                if local.exists():
                    open_files.append(local)
                elif module and module not in allowed:
                    self.error(path, f'"{include}" is not among the modules of {name}')
        seen |= own

    def public_headers(self):
        for path in sorted((self.root / "include").rglob("*.h")):
            for include in self.includes(path):
                self.error(path, f'the public API includes "{include}"')

    def drawn_ranks(self):
        path = self.root / "ARCHITECTURE.md"
        drawn = {}
        for rank, names in re.findall(r"^\| (\d+) \| ((?:`[\w/]+`(?:, )?)+) \|", path.read_text(), re.M):
            drawn.update({name: int(rank) for name in re.findall(r"`([\w/]+)`", names)})
        drawn.pop("include/coxswain", None)
        for name in sorted(drawn.keys() | self.ranks.keys()):
            if drawn.get(name) != self.ranks.get(name):
                self.error(path, f"{name} has rank {drawn.get(name)} here and {self.ranks.get(name)} in src/CMakeLists.txt")


def main():
    check = Check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
    check.modules()
    check.programs()
    check.public_headers()
    check.drawn_ranks()
    print("\n".join(check.errors))
    print(f"{len(check.rows)} modules, {check.n_includes} includes, {len(check.errors)} errors")
    return 1 if check.errors or not check.rows else 0


if __name__ == "__main__":
    sys.exit(main())
