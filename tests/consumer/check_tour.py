#!/usr/bin/env python3
"""Compiles the C++ and C of a document against the public headers, each block to the end of its syntax.

    check_tour.py DOCUMENT INCLUDE_FOLDER [C++ COMPILER]

A block of ```cpp with a main() is a program and compiled as it stands. Any other is a function's body: `model`, `engine` and
`request` are there, all public headers are included and `using namespace coxswain` holds. A block of ```c is a program in C11.
Errors are told by the lines of the document.
"""
import concurrent.futures, pathlib, re, subprocess, sys

BLOCK = re.compile(r"^```(cpp|c)\n(.*?)^```$", re.S | re.M)
FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable", "-Wno-unused-but-set-variable"]


def blocks(document):
    """(language, first line, text) of each."""
    text = document.read_text()
    for match in BLOCK.finditer(text):
        yield match[1], text.count("\n", 0, match.start()) + 2, match[2]


def bodies(found, document, include):
    """One source of all blocks that are no programs: what they have in common is read once."""
    headers = sorted(path.relative_to(include) for path in include.glob("coxswain/*.h"))
    lines = [f"#include <{header}>" for header in headers]
    lines += ["#include <chrono>", "#include <iostream>", "#include <string>", "#include <utility>", "#include <vector>",
              "using namespace coxswain;", "using namespace std::chrono_literals;"]
    for number, (line, text) in enumerate(found):
        lines += [f"[[maybe_unused]] static void block_{number}([[maybe_unused]] LocalModel& model, "
                  "[[maybe_unused]] Executor& engine, [[maybe_unused]] Request& request) {",
                  f'#line {line} "{document}"', text + "}"]
    return "\n".join(lines)


def compile_errors(compiler, language, include, source):
    standard = "-std=c++20" if language == "c++" else "-std=c11"
    command = [compiler, "-x", language, standard, *FLAGS, f"-I{include}", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True).stderr


def main():
    document, include = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    compiler = sys.argv[3] if len(sys.argv) > 3 else "c++"
    jobs, found, n = [], [], 0
    for language, line, text in blocks(document):
        n += 1
        if language == "c" or re.search(r"\bmain\(", text):
            jobs.append(("c" if language == "c" else "c++", f'#line {line} "{document}"\n{text}'))
        else:
            found.append((line, text))
    if found:
        jobs.append(("c++", bodies(found, document, include)))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        errors = [text for text in pool.map(lambda job: compile_errors(compiler, job[0], include, job[1]), jobs) if text]
    print("".join(errors), end="")
    print(f"{n} blocks, {len(errors)} with errors")
    return 1 if errors or n == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
