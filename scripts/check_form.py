#!/usr/bin/env python3
"""Finds what a formatter cannot see: text and declarations that fell apart.

  check_form.py [FILE or FOLDER ...]     default: every file that git knows

In C++ and proto files:
  orphan   a comment line of one or two words that ends a paragraph: wrap the paragraph again, or say it shorter
  torn     a statement broken in two only because a trailing comment did not fit behind it: put the comment above
  long     a comment line above 120 columns (code is clang-format's)
  size     a file above 800 lines; a table may be longer and is then named in TABLES
In documentation:
  long     a line above 120 columns
"""

import pathlib
import re
import subprocess
import sys

COLUMNS_MAX = 120    # of comments and documentation
CODE_COLUMNS = 100   # of .clang-format: what fits in there need not be broken
LINES_MAX = 800
PARAGRAPH_LINE_MIN = 70  # a comment line of this length was filled up: the next one continues it

TABLES = set()  # files that are one table, a row of which is read alone

DOCUMENTS = re.compile(r"^(?!models/).*\.md$")  # the cards of models are written by a program
COMMENT = re.compile(r"^\s*// ?(.*)$")
LITERAL = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:[^"\\]|\\.)*"|(?<![0-9a-fA-F])\'(?:[^\'\\]|\\.)+\'')


def code_of(line):
    """The line without its trailing comment, and whether it has one. Literals keep their length and lose their content."""
    bare = LITERAL.sub(lambda m: '"' + "x" * (len(m.group()) - 2) + '"', line)
    at = bare.find("//")
    return (bare.rstrip(), False) if at < 0 else (bare[:at].rstrip(), True)


def is_meant(previous, text):
    """A short line that is meant: a sentence, an entry of a list, a row of a drawing or table, a lint's name."""
    if re.match(r"\s*(NOLINT|clang-format|[-*+|=#/\\^~`]|\d+[.)] )", text) or re.search(r"\S {2,}\S", text):
        return True
    if not re.search(r"[A-Za-z0-9]{2}", text):  # an arrow, a brace
        return True
    if text.startswith("  ") and not previous.startswith("  "):
        return True
    previous, text = previous.strip(), text.strip()
    return previous.endswith((".", ":", "!", "?")) and not text[0].islower()


def orphans(lines):
    for i in range(1, len(lines)):
        found = COMMENT.match(lines[i])
        text = found.group(1).rstrip() if found else ""
        if not text or len(text.split()) > 2 or len(lines[i - 1]) < PARAGRAPH_LINE_MIN:
            continue
        before = COMMENT.match(lines[i - 1])
        if before is None:  # a trailing comment that goes on below
            code, has_comment = code_of(lines[i - 1])
            if not has_comment or len(lines[i]) - len(lines[i].lstrip()) < len(code):
                continue
            before = re.match(r".*//(.*)$", lines[i - 1])
        previous = before.group(1).rstrip()
        if previous and not is_meant(previous, text):
            yield i, f"orphan: '{text.strip()}' alone on a line"


def begins_anew(before):
    """Whether a statement or member begins behind this line of code."""
    return not before.strip() or before.endswith((";", "{", "}", ":")) or before.lstrip().startswith("#")


def torn(lines):
    for i in range(1, len(lines)):
        code, has_comment = code_of(lines[i])
        if not has_comment or not code.strip() or not code.endswith((";", "{", ",", "}")):
            continue
        joined, j = code.strip(), i - 1
        while j >= 0 and len(joined) <= CODE_COLUMNS:
            head, head_has_comment = code_of(lines[j])
            if head_has_comment or begins_anew(head) or (head.endswith(",") and joined.count("(") == joined.count(")")):
                break
            joined = head.lstrip() + ("" if head.endswith("(") else " ") + joined
            j -= 1
        indent = len(lines[j + 1]) - len(lines[j + 1].lstrip())
        previous = code_of(lines[j])[0] if j >= 0 else ""
        if j + 1 < i and (begins_anew(previous) or COMMENT.match(lines[j])) and indent + len(joined) <= CODE_COLUMNS:
            yield i, "torn: a trailing comment broke it; put the comment above"


def check(name, text):
    lines = text.split("\n")
    if DOCUMENTS.match(name):
        for i, line in enumerate(lines):
            if len(line) > COLUMNS_MAX:
                yield i, f"long: {len(line)} columns"
        return
    yield from orphans(lines)
    yield from torn(lines)
    for i, line in enumerate(lines):
        if COMMENT.match(line) and len(line) > COLUMNS_MAX:
            yield i, f"long: {len(line)} columns"
    if len(lines) - 1 > LINES_MAX and name not in TABLES:
        yield len(lines) - 2, f"size: {len(lines) - 1} lines, more than {LINES_MAX}"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root, check=True,
                            capture_output=True, text=True).stdout.split("\n")
    wanted = [str(pathlib.Path(argument).resolve().relative_to(root)) for argument in sys.argv[1:]] or ["."]
    n_files, n_found = 0, 0
    for name in sorted(set(listed)):
        path = root / name
        if not (name.endswith((".cc", ".h", ".inc", ".proto")) or DOCUMENTS.match(name)) or not path.is_file():
            continue
        if not any(w == "." or name == w or name.startswith(w + "/") for w in wanted):
            continue
        n_files += 1
        for line, what in sorted(check(name, path.read_text(errors="replace"))):
            n_found += 1
            print(f"{name}:{line + 1}: {what}")
    print(f"{n_files} files, {n_found} to mend")
    return 1 if n_found else 0


if __name__ == "__main__":
    sys.exit(main())
