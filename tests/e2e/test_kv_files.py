"""--kv-spill-path: KV blocks in files, found again behind a restart, and never believed; and --kv-host-bytes-max."""

from process_tree import wait_until

PROMPT = "A ship, a harbour and a long way home. " * 24
REQUEST = {"inputs": PROMPT, "parameters": {"max_new_tokens": 12, "details": True, "seed": 3, "do_sample": True}}


def arguments(folder):
    return "--kv-spill-path", folder, "--kv-spill-bytes-max", 64 << 20


def answer_of(launcher):
    response = launcher.post("/generate", REQUEST)
    assert response.status_code == 200, response.text
    return response.json()


def blocks(folder):
    return sorted(folder.glob("kv-*/*.kvblock"))


def written(launcher):
    return wait_until(lambda: launcher.metrics()["tgi_kv_tier_blocks"], 20, lambda: f"written: {launcher.metrics()}")


def test_a_restart_finds_what_was_said(launch, tmp_path):
    first = launch(*arguments(tmp_path)).wait_ready()
    answer = answer_of(first)
    n_written = written(first)
    assert first.stop() == 0, first.log()
    assert len(blocks(tmp_path)) >= n_written > 0

    second = launch(*arguments(tmp_path)).wait_ready()
    assert answer_of(second) == answer
    metrics = second.metrics()
    assert metrics["tgi_kv_tier_blocks_onboarded_total"] > 0, metrics
    assert metrics["tgi_kv_tier_blocks_refused_total"] == 0
    assert second.stop() == 0, second.log()

    for path in blocks(tmp_path):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    third = launch(*arguments(tmp_path)).wait_ready()
    assert answer_of(third) == answer
    metrics = third.metrics()
    assert metrics["tgi_kv_tier_blocks_refused_total"] > 0, metrics
    assert metrics["tgi_kv_tier_blocks_onboarded_total"] == 0


def test_a_folder_that_cannot_be_used_hurts_nobody(launch, tmp_path):
    (tmp_path / "file").write_text("no folder")
    launcher = launch(*arguments(tmp_path / "file")).wait_ready()
    assert answer_of(launcher)["details"]["generated_tokens"] > 0
    assert "no KV blocks are kept in files" in launcher.out() + launcher.err()


def test_memory_has_what_the_cache_has_lost(launch):
    launcher = launch("--kv-host-bytes-max", "64MB", "--kv-cache-bytes-max", "1MB").wait_ready()
    answer = answer_of(launcher)
    wait_until(lambda: launcher.metrics()["tgi_kv_tier_memory_blocks"], 20, lambda: f"kept: {launcher.metrics()}")
    for i in range(8):
        other = {"inputs": f"{i} words of another kind. " * 30, "parameters": {"max_new_tokens": 4}}
        assert launcher.post("/generate", other).status_code == 200
    assert answer_of(launcher) == answer
    metrics = launcher.metrics()
    assert metrics["tgi_kv_tier_memory_blocks_onboarded_total"] > 0, metrics
    assert metrics["tgi_kv_tier_blocks"] == 0
