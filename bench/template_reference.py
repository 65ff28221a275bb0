#!/usr/bin/env python3
"""Render times of Jinja2 for the same templates and conversations as coxswain-bench-template.

    python3 -m venv venv && venv/bin/pip install jinja2==3.1.6
    venv/bin/python bench/template_reference.py DIR [build/release/bin/coxswain-bench-template]

With the program given, runs it first and prints how many times its render time Jinja2 takes.
"""
import datetime, json, pathlib, statistics, subprocess, sys, time

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


def raise_exception(message):
    raise jinja2.TemplateError(message)


def our_times(program, folder):
    lines = subprocess.run([program, folder], check=True, capture_output=True, text=True).stdout.splitlines()[1:]
    return {fields[0]: float(fields[2]) for fields in map(str.split, lines)}


def main():
    ours = our_times(sys.argv[2], sys.argv[1]) if len(sys.argv) > 2 else {}
    folder = pathlib.Path(sys.argv[1]) / "chat-templates"
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = lambda v, indent=None, **_: json.dumps(v, ensure_ascii=False, indent=indent)
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: datetime.datetime(2024, 7, 26).strftime(f)
    rows = []
    for path in sorted((folder / "templates").glob("*.jinja")):
        try:
            template = env.from_string(path.read_text())
        except jinja2.TemplateError:
            continue
        best = None
        for c in json.load(open(folder / "conversations.json")):
            given = dict(messages=c["messages"], tools=c.get("tools"), documents=c.get("documents"), add_generation_prompt=True,
                         bos_token="<s>", eos_token="</s>", **c.get("kwargs", {}))
            try:
                n = len(template.render(**given).encode())
            except Exception:
                continue
            if best is None or n > best[0]:
                best = (n, given)
        if best:
            times = []
            for _ in range(101):
                begin = time.perf_counter()
                template.render(**best[1])
                times.append((time.perf_counter() - begin) * 1e6)
            rows.append((statistics.median(times), path.stem, best[0]))
    ratios = []
    for t, name, n in sorted(rows, reverse=True):
        ratio = t / ours[name] if ours.get(name) else None
        ratios += [ratio] if ratio else []
        print(f"{name:52} {t:12.1f} us {n:8}" + (f" {ratio:8.1f} times ours" if ratio else ""))
    if ratios:
        print(f"Jinja2 / ours: median {statistics.median(ratios):.1f}, least {min(ratios):.1f}, most {max(ratios):.1f}")


if __name__ == "__main__":
    main()
