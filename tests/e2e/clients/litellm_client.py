"""Uses the package litellm; prints {case: result} as JSON."""

import json
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing is fetched

import litellm

litellm.suppress_debug_info = True  # it is printed to stdout
MESSAGES = json.loads(sys.argv[3])
SERVED = {"model": "openai/tgi", "api_base": sys.argv[1] + "/v1", "api_key": "-", "timeout": 60, "num_retries": 0, "max_retries": 0}


def error_of(**change):
    try:
        litellm.completion(**{**SERVED, "messages": MESSAGES, **change})
    except Exception as error:
        return {"class": type(error).__name__, "status": error.status_code}
    return None


def chat():
    answer = litellm.completion(**SERVED, messages=MESSAGES, max_tokens=20, temperature=0)
    return {"content": answer.choices[0].message.content, "total_tokens": answer.usage.total_tokens}


def error_too_long():
    return error_of(messages=[{"role": "user", "content": "fox " * 5000}])


def error_no_room():
    return error_of(max_tokens=1_000_000)


def error_invalid():
    return error_of(max_tokens=0)


CASES = [chat, error_too_long, error_no_room, error_invalid]
print(json.dumps({case.__name__: case() for case in CASES}))
