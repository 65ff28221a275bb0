#!/usr/bin/env python3
"""Random expressions of chat templates, in Jinja2 and here.

    python3 -m venv venv && venv/bin/pip install jinja2==3.1.6
    venv/bin/python tests/conformance/template_differences.py build/release/bin/coxswain-conformance [SEED [COUNT]]

Renders COUNT expressions with Jinja2 and has coxswain-conformance compare. Ends with its exit code.
"""
import copy, json, pathlib, random, re, subprocess, sys, tempfile

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = {"s": "Hello Wörld", "n": 7, "f": 2.5, "l": [3, 1, 2, 1], "d": {"b": 1, "a": 2}, "e": {"a": 2, "c": [1]},
             "ld": [{"k": "x", "v": 1}, {"k": "Y", "v": 2}, {"k": "x", "v": 3}], "none_": None, "t": True}
ATOMS = list(VARIABLES) + ["0", "-3", "255", "1.5", "1e16", "-0.0", "''", "'abcabc'", "'a b\\tc\\n'", "'ß'", "[]", "{}", "()",
                           "(1, 'x')", "range(6)|list", "range(9, 0, -2)|list", "d.keys()|list", "d.items()|list",
                           "d.values()|list", "missing", "true", "none", "[1, 1.0, true]", "{1: 'i', 2.5: 'f'}"]
# As variables, so that Jinja2 does not work out at once what is constant: a failing slice would then print nothing.
PRELUDE = "".join("{% set c" + str(i) + " = " + atom + " %}" for i, atom in enumerate(ATOMS))
INFIX = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
FILTERS = ["abs", "capitalize", "count", "default('z')", "dictsort", "first", "float", "int", "items|list", "join(',')",
           "last", "length", "list", "lower", "max", "min", "replace('a', 'bb')", "reverse|list", "round(1)", "sort",
           "string", "sum", "title", "tojson", "trim", "trim('aH')", "unique|list", "upper", "indent(2)", "batch(2)|list",
           "slice(2)|list", "map('string')|list", "select|list", "select('odd')|list", "groupby('k')|list",
           "map(attribute='v')|list"]
TESTS = ["defined", "none", "number", "string", "mapping", "sequence", "iterable", "odd", "lower", "callable", "integer",
         "float", "sameas none", "true"]
METHODS = ["index(1)", "count(1)", "count('a')", "copy()", "keys()|list", "items()|list", "get('a')", "get('z', 5)",
           "strip()", "strip('aH')", "rstrip('\\n')", "split()", "split('b')", "split('b', 1)", "rsplit('b', 1)",
           "rsplit()", "splitlines()", "partition('b')", "rpartition('l')", "find('l')", "rfind('l')",
           "replace('l', '_', 1)", "startswith('a')", "endswith(('c', 'd'))", "upper()", "lower()", "title()",
           "capitalize()", "removeprefix('a')", "removesuffix('c')", "isalpha()", "isdigit()", "isspace()", "isupper()",
           "islower()", "isnumeric()", "isalnum()", "isascii()", "join(['x', 'y'])", "append(1)", "pop()"]


def slice_of(pick):
    part = lambda: pick(["", "0", "1", "-1", "2", "-2", "9"])
    return "[" + pick([part() + ":" + part(), part() + ":" + part() + ":" + pick(["", "1", "2", "-1", "-2"])]) + "]"


def expression(rng, depth):
    pick = rng.choice
    if depth == 0:
        return "c" + str(rng.randrange(len(ATOMS)))
    inner = lambda: "(" + expression(rng, depth - 1) + ")"
    return pick([
        lambda: inner() + " " + pick(INFIX) + " " + inner(),
        lambda: inner() + "." + pick(METHODS),
        lambda: inner() + "." + pick(METHODS),
        lambda: inner() + "|" + pick(FILTERS),
        lambda: inner() + slice_of(pick),
        lambda: inner() + "[" + pick(["0", "-1", "'a'", "1.0", "true", "'keys'"]) + "]",
        lambda: inner() + " is " + pick(["", "not "]) + pick(TESTS),
        lambda: pick(["not ", "-", "+"]) + inner(),
        lambda: "[" + inner() + ", " + inner() + "]",
        lambda: inner() + " if " + inner() + " else " + inner(),
        lambda: inner() + " + " + inner() + " + " + inner(),
    ])()


def unprintable(text):
    """Prints an address."""
    return re.search(r" at 0x|<bound|<built-in|<method|<class|<function|<generator", text) is not None


def units(seed, count):
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = lambda v, indent=None, **_: json.dumps(v, ensure_ascii=False, indent=indent)
    rng = random.Random(seed)
    out = []
    while len(out) < count:
        source = PRELUDE + "{{ " + expression(rng, rng.choice([1, 1, 2, 2, 3])) + " }}"
        try:
            text = env.from_string(source).render(**copy.deepcopy(VARIABLES))
            text.encode()
        except Exception:
            text = None
        if text is None or not unprintable(text):
            out.append({"name": source[len(PRELUDE):], "template": source, "context": VARIABLES, "python_hf": text})
    return out


def main():
    seed, count = ([int(a) for a in sys.argv[2:]] + [1, 5000][len(sys.argv) - 2:])[:2]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "chat-templates" / "from-repos" / "huggingface_js_jinja_units.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(units(seed, count)))
        return subprocess.run([sys.argv[1], "templates", "--data", folder]).returncode


if __name__ == "__main__":
    sys.exit(main())
