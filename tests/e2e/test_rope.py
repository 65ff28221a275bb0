"""--rope-scaling and --rope-factor: longer sequences than the model was trained with, over the real processes."""

import subprocess
import threading

from demo import CONTEXT, MODEL, PROMPT
from launcher import BIN


def complete(server, **fields):
    response = server.post("/v1/completions", {"prompt": PROMPT, "temperature": 0, "logprobs": 0, **fields})
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]


def longest(server):
    return server.get("/info").json()["max_total_tokens"]


def test_dynamic(server, launch):
    """What fits into the trained length is what it was, bit for bit; what is longer depends on that request alone."""
    longer = launch("--rope-scaling", "dynamic", "--rope-factor", "2").wait_ready()
    assert (longest(server), longest(longer)) == (CONTEXT, 2 * CONTEXT)
    assert complete(longer, max_tokens=50) == complete(server, max_tokens=50)

    def ask():
        return complete(longer, max_tokens=CONTEXT)  # it ends long before, but might not

    alone = ask()
    assert alone["logprobs"] != complete(server, max_tokens=CONTEXT - 50)["logprobs"]
    others = [threading.Thread(target=complete, args=(longer,), kwargs={"max_tokens": n}) for n in (40, CONTEXT + 300)]
    for other in others:
        other.start()
    assert ask() == alone
    for other in others:
        other.join()
    assert longer.stop() == 0


def test_a_factor_alone_is_linear(server, launch):
    linear = launch(environment={"ROPE_FACTOR": "1.5"}).wait_ready()
    assert longest(linear) == CONTEXT * 3 // 2
    assert complete(linear, max_tokens=20)["logprobs"] != complete(server, max_tokens=20)["logprobs"]
    assert linear.stop() == 0


def test_a_factor_below_one_is_refused():
    done = subprocess.run([BIN / "text-generation-launcher", "--model-id", MODEL, "--rope-factor", "0.5"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "rope-factor" in done.stderr + done.stdout and "0.5" in done.stderr + done.stdout
