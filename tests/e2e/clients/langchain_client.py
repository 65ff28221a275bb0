"""Uses the package langchain-openai; prints {case: result} as JSON."""

import json
import sys

from langchain_core import exceptions
from langchain_openai import ChatOpenAI

OVERFLOW = getattr(exceptions, "ContextOverflowError", ())  # the package of a year ago has none
CONTENT = json.loads(sys.argv[3])[0]["content"]


def model(**more):
    return ChatOpenAI(model="tgi", base_url=sys.argv[1] + "/v1", api_key="-", timeout=60, max_retries=0, temperature=0, **more)


def error_of(call):
    try:
        call()
    except Exception as error:
        return {"overflow": isinstance(error, OVERFLOW), "status": error.status_code}
    return None


def chat():
    answer = model(max_tokens=20).invoke(CONTENT)
    return {"content": answer.content, "total_tokens": answer.usage_metadata["total_tokens"]}


def chat_stream():
    return "".join(chunk.content for chunk in model(max_tokens=20).stream(CONTENT))


def error_too_long():
    return error_of(lambda: model().invoke("fox " * 5000))


def error_of_stream():
    return error_of(lambda: list(model().stream("fox " * 5000)))


def error_no_room():
    return error_of(lambda: model(max_tokens=1_000_000).invoke(CONTENT))


def error_invalid():
    return error_of(lambda: model(max_tokens=0).invoke(CONTENT))


def knows_overflow():
    return OVERFLOW != ()


CASES = [knows_overflow, chat, chat_stream, error_too_long, error_of_stream, error_no_room, error_invalid]
print(json.dumps({case.__name__: case() for case in CASES}))
