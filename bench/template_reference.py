#!/usr/bin/env python3
"""Render times of Jinja2 for the same templates and conversations as coxswain-bench-template.

    python3 -m venv venv && venv/bin/pip install jinja2==3.1.6
    venv/bin/python bench/template_reference.py DIR
"""
import datetime, json, pathlib, statistics, sys, time

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


def raise_exception(message):
    raise jinja2.TemplateError(message)


def main():
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
    for t, name, n in sorted(rows, reverse=True):
        print(f"{name:52} {t:12.1f} us {n:8}")


if __name__ == "__main__":
    main()
