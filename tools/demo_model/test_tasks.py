"""Checks of the data generators: python3 test_tasks.py (plain asserts, no packages; about fifteen seconds of one core)."""

import copy
import json
import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from tasks import TASKS, draw, is_held  # noqa: E402
from tasks.core import TOOL_CALL_MARKER, expand  # noqa: E402
from tasks.facts import CAPITALS  # noqa: E402
from tasks.numbers import add_text, subtract_text  # noqa: E402
from tasks.faq import FAQ  # noqa: E402

_CASES = 400


def _answer(case: dict) -> str:
    """The last turn as a decoder prints it."""
    last = case["messages"][-1]
    calls = last.get("tool_calls")
    return TOOL_CALL_MARKER + json.dumps(calls[0]["function"]) if calls else last["content"]


def _changed(case: dict) -> list:
    """Wrong answers that look right: one word or digit is another."""
    answer = _answer(case)
    if case["task"] in ("add", "subtract"):
        return [answer + "1", answer.rsplit("=", 1)[0]]
    wrong = [answer + " x", answer[:-2], ""]
    digit = re.search(r"\d", answer)
    if digit and case["kind"] == "exact":
        wrong.append(answer[: digit.start()] + str((int(digit.group()) + 1) % 10) + answer[digit.end():])
    return wrong


def test_keys_follow_the_split():
    rng = random.Random(1)
    for name, task in TASKS.items():
        for split in ("train", "held"):
            for _ in range(_CASES):
                case = task.generate(rng, split)
                assert case["task"] == name and case["kind"] == task.kind
                assert is_held(case["key"]) == (split == "held"), (name, case["key"])


def test_checks_accept_the_answer_and_reject_another():
    rng = random.Random(2)
    for name, task in TASKS.items():
        assert task.check.__doc__, name
        for split in ("train", "held"):
            for _ in range(_CASES):
                case = task.generate(rng, split)
                before = copy.deepcopy(case)
                assert task.check(case, _answer(case)), (name, case)
                for wrong in _changed(case):
                    assert not task.check(case, wrong), (name, case, wrong)
                assert case == before, f"{name}: check changed its case"


def test_no_held_question_in_training():
    """Not even as one turn of a conversation: of tasks whose key fixes the words, no held-out case is ever seen."""
    held, rng = set(), random.Random(3)
    for name in ("sort_numbers", "sort_words", "reverse", "how_many", "extract", "tool_result"):
        for _ in range(1500):
            case = TASKS[name].generate(rng, "held")
            held.add((case["messages"][-2]["content"], _answer(case)))
    for name in ("faq", "capitals", "greetings"):
        for _ in range(3000):
            case = TASKS[name].generate(rng, "held")
            if case["messages"][0]["content"] in case["key"]:
                held.add((case["messages"][0]["content"], _answer(case)))
    sums = {TASKS[name].generate(rng, "held")["key"] for name in ("add", "subtract") for _ in range(5000)}
    calls = {TASKS["tool_call"].generate(rng, "held")["key"] for _ in range(3000)}
    assert len(held) > 2000 and len(sums) > 3000 and len(calls) > 500
    for _ in range(40000):
        messages = draw(rng, "train")["messages"]
        for before, after in zip(messages, messages[1:]):
            if after["role"] != "assistant" or before["role"] != "user" or after.get("tool_calls"):
                continue
            assert (before["content"], after["content"]) not in held, before
            sum_of = re.fullmatch(r"(\d+) ([+-]) (\d+): .*", after["content"])
            if sum_of:
                task = "add" if sum_of[2] == "+" else "subtract"
                assert f"{task}|{sum_of[1]}{sum_of[2]}{sum_of[3]}" not in sums, after
    for _ in range(20000):
        key = TASKS["tool_result"].generate(rng, "train")["key"]
        call = key.split("|", 1)[1].rsplit("|", 1)[0]
        assert "tool_call|" + call not in calls and not is_held("tool_call|" + call), key


def test_columns():
    """Every column is true, follows from the one before, and the result follows from the columns."""
    rng = random.Random(4)
    pairs = [(0, 0), (999, 999), (100, 1), (1, 100), (10, 10), (999, 1), (500, 500)]
    pairs += [(rng.randrange(1000), rng.randrange(1000)) for _ in range(3000)]
    for a, b in pairs:
        for text, sign in ((add_text(a, b), "+"), (subtract_text(a, b), "-")):
            assert int(text.rsplit("=", 1)[1]) == (a + b if sign == "+" else a - b), text
            for terms, total in re.findall(r"(\d+(?:[+-]\d+)+)=(\d+)", text):
                assert sum(int(n) for n in re.findall(r"[+-]?\d+", terms)) == int(total), text
    assert add_text(347, 586) == "347 + 586: 7+6=13, 4+8+1=13, 3+5+1=9. 347 + 586 = 933"
    assert subtract_text(523, 187) == "523 - 187: 13-7=6, 12-8-1=3, 5-1-1=3. 523 - 187 = 336"
    assert subtract_text(5, 12) == "5 is less than 12. 12 - 5: 12-5=7, 1-0-1=0. 12 - 5 = 7. 5 - 12 = -7"


def test_conversations_are_well_formed():
    rng = random.Random(5)
    for _ in range(20000):
        case = draw(rng, "train")
        messages = case["messages"]
        roles = [message["role"] for message in messages]
        assert roles[-1] == "assistant" and "system" not in roles[1:]
        for before, after in zip(roles, roles[1:]):
            assert after in {"system": ("user",), "user": ("assistant",), "assistant": ("user", "tool"), "tool": ("assistant",)}[before], roles
        offered = {tool["function"]["name"]: tool["function"]["parameters"] for tool in case.get("tools", [])}
        assert len(offered) == len(case.get("tools", [])) <= 3
        for message in messages:
            text = message["content"]
            if message["role"] == "assistant" and not message.get("tool_calls"):
                assert text and text == text.strip() and "  " not in text, text
                assert text.isascii() and "\n" not in text, text
            for call in message.get("tool_calls", []):
                function = call["function"]
                parameters = offered[function["name"]]
                assert list(function["arguments"]) == parameters["required"]
                for name, value in function["arguments"].items():
                    assert parameters["properties"][name]["type"] == ("integer" if isinstance(value, int) else "string")


def test_same_seed_same_cases():
    first, second = random.Random(7), random.Random(7)
    assert [draw(first, "train") for _ in range(500)] == [draw(second, "train") for _ in range(500)]


def test_closed_sets():
    assert len(CAPITALS) >= 60 and len(FAQ) >= 60
    for name in ("faq", "capitals", "greetings", "months", "opposites", "plurals", "colours"):
        assert TASKS[name].generate.held_wordings >= 15, name
    for item, (answer, patterns) in FAQ.items():
        assert sum(len(expand(pattern)) for pattern in patterns) >= 4, item
        assert len(answer) < 200, item


def test_facts_about_the_server():
    """What the answers name is in the documentation."""
    docs = pathlib.Path(__file__).resolve().parents[2] / "docs"
    options, api, metrics = ((docs / f"{page}.md").read_text() for page in ("options", "api", "metrics"))
    defaults = {"port": "`3000`", "concurrent": "`128`", "body size": "`2000000`", "hostname": "`0.0.0.0`", "stop server": "`90`"}
    named = {"port": "`--port`", "concurrent": "`--max-concurrent-requests`", "body size": "`--payload-limit`", "hostname": "`--hostname`",
             "stop server": "`--graceful-termination-timeout`"}
    for item, default in defaults.items():
        assert default.strip("`") in FAQ[item][0]
        assert re.search(rf"^- {named[item]}[,;][^\\]*default {re.escape(default)}[;\\]", options, re.MULTILINE), item
    for item, (answer, patterns) in FAQ.items():
        for text in (answer, *(q for pattern in patterns for q in expand(pattern))):
            for option in re.findall(r"--[a-z0-9-]+[a-z0-9]", text):
                assert f"`{option}`" in options, (item, option)
            for variable in re.findall(r"\b[A-Z]+_[A-Z_]+\b", text):
                assert f"`{variable}`" in options, (item, variable)
            for status in re.findall(r"[sS]tatus (\d+)", text):
                assert re.search(rf"\| [0-9, ]*{status}", api), (item, status)
            for metric in re.findall(r"tgi_\w+", text):
                assert f"`{metric}`" in metrics, (item, metric)
        for route in re.findall(r"(?<![\w./-])/(?:v1/)?[a-z_]+(?:/[a-z]+)?", answer):
            assert route in api or route.startswith(("/models/",)), (item, route)
        for field in re.findall(r"Set (?!the )([a-z_]+) ", answer):
            assert f"`{field}`" in api or f"`{field}." in api or f"`{field}`" in options, (item, field)
    for page in re.findall(r"(?:docs|scripts)/\w+\.(?:md|sh)|README\.md", " ".join(answer for answer, _ in FAQ.values())):
        assert (docs.parent / page).exists(), page


def test_a_question_has_one_answer():
    """A first question without tools or a system prompt means the same wherever it comes from (case and end marks aside)."""
    rng, answers = random.Random(8), {}
    for name in ("add", "subtract", "count", "days", "months", "colours", "capitals", "opposites", "plurals", "number_words", "faq", "greetings"):
        for _ in range(4000):
            question, answer = (message["content"] for message in TASKS[name].generate(rng, "train")["messages"])
            known = answers.setdefault(question.lower().rstrip("?.! "), answer)
            assert known == answer or question.lower().startswith(("hey, ", "hi, ", "hello, ")), (question, known, answer)


if __name__ == "__main__":
    tests = [(name, function) for name, function in list(globals().items()) if name.startswith("test_")]
    for number, (name, function) in enumerate(tests, 1):
        function()
        print(f"[{number}/{len(tests)}] ok {name}", flush=True)
