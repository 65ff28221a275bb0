"""The page of metrics in its forms; PyPI's prometheus_client reads OpenMetrics, strictly."""

import gzip
import re

import pytest
import requests
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from demo import MODEL, PROMPT

OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture(scope="module")
def launcher():
    from launcher import Launcher
    # Nobody listens there: traces are dropped, and requests have them all the same.
    launcher = Launcher(("--metrics-aliases", "vllm", "--admin-listen", "127.0.0.1:0", "--otlp-endpoint", "http://127.0.0.1:9")).start()
    try:
        launcher.wait_ready()
        for path, body in (("/generate", {"inputs": PROMPT, "parameters": {"max_new_tokens": 20}}),
                           ("/generate_stream", {"inputs": PROMPT, "parameters": {"max_new_tokens": 5}})):
            answer = launcher.post(path, body, headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"})
            assert answer.status_code == 200
        yield launcher
        assert launcher.stop() == 0, launcher.log()
    finally:
        launcher.dispose()


@pytest.fixture(scope="module")
def admin_url(launcher):
    return "http://" + re.search(r"the replicas are shown at=(127.0.0.1:\d+)", launcher.out())[1]


def samples_of(page):
    """{(name, labels): value} and {name of family: type}"""
    families = list(parse_openmetrics(page))
    return ({(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples},
            {f.name: f.type for f in families})


def lines_of(page):
    """{"name" or "name{labels}": value}, in either form"""
    lines = [line.split(" # {")[0] for line in page.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_both_forms_tell_the_same(launcher, admin_url):
    for url in (launcher.url, admin_url):
        plain = requests.get(url + "/metrics", timeout=60)
        assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8" and "# EOF" not in plain.text
        page = requests.get(url + "/metrics", headers={"accept": OPENMETRICS}, timeout=60)
        assert page.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        assert page.text.endswith("\n# EOF\n") and page.text.count("# EOF") == 1
        assert lines_of(plain.text) == lines_of(page.text)  # nothing runs, and every series has one name
        samples, types = samples_of(page.text)
        assert len(samples) == len(lines_of(page.text))
        assert types["tgi_request_count"] == "unknown" and types["tgi_generated_tokens"] == "counter"
        assert types["tgi_request_duration"] == "histogram" and types["tgi_queue_size"] == "gauge"
    assert samples["tgi_replica_steps_total", (("replica", "0"),)] > 0


def test_latencies_name_a_trace(launcher):
    page = requests.get(launcher.url + "/metrics", headers={"accept": OPENMETRICS}, timeout=60).text
    traced = {}
    for family in parse_openmetrics(page):
        for sample in family.samples:
            if sample.exemplar:
                traced.setdefault(family.name, []).append(sample)
    assert {"tgi_request_duration", "tgi_time_to_first_token_duration", "tgi_request_queue_duration",
            "vllm:e2e_request_latency_seconds"} <= set(traced)
    for sample in traced["tgi_request_duration"]:
        assert sample.exemplar.labels == {"trace_id": TRACE} and sample.exemplar.value <= float(sample.labels["le"])
        assert float(sample.exemplar.timestamp) > 1.7e9
    assert "tgi_request_input_length" not in traced


def test_the_page_is_compressed_for_those_who_ask(launcher):
    plain = requests.get(launcher.url + "/metrics", headers={"accept-encoding": "identity"}, timeout=60)
    assert "content-encoding" not in plain.headers
    with requests.get(launcher.url + "/metrics", headers={"accept-encoding": "gzip"}, stream=True, timeout=60) as packed:
        raw = packed.raw.read()
        assert packed.headers["content-encoding"] == "gzip" and int(packed.headers["content-length"]) == len(raw)
    assert len(raw) < len(plain.content) / 4
    assert gzip.decompress(raw).count(b"\n") == plain.content.count(b"\n")


def test_names_of_vllm(launcher):
    samples, types = samples_of(requests.get(launcher.url + "/metrics", headers={"accept": OPENMETRICS}, timeout=60).text)
    labels = {"model_name": str(MODEL), "engine": "0"}

    def value(name, **more):
        return samples[name, tuple(sorted({**labels, **more}.items()))]

    assert value("vllm:num_requests_running") == value("vllm:num_requests_waiting") == 0
    assert 0 <= value("vllm:kv_cache_usage_perc") < 1
    assert value("vllm:prompt_tokens_total") == samples["tgi_prompt_tokens_total", ()] > 0
    assert value("vllm:generation_tokens_total") == samples["tgi_generated_tokens_total", ()] == 25
    assert value("vllm:request_success_total", finished_reason="length") == 2
    assert value("vllm:time_to_first_token_seconds_count") == value("vllm:e2e_request_latency_seconds_count") == 2
    assert 2 <= value("vllm:inter_token_latency_seconds_count") <= 23
    assert types["vllm:generation_tokens"] == "counter" and types["vllm:inter_token_latency_seconds"] == "histogram"


def test_a_server_without_aliases_has_none(server):
    text = server.get("/metrics").text
    assert "vllm:" not in text and "tgi_inter_token_duration_count" in text
