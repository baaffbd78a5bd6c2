from bench.plan import TINY, Bench, Step
from bench.workloads.variants import SYNCED, fsync, pinned, variant, with_sync


def test_variants_repeat_chosen_steps_under_their_own_names_without_targets():
    for name, steps in (("pinned", pinned(1.0)), ("fsync", fsync(1.0))):
        figures = [figure for step in steps for figure in step.figures]
        assert {step.workload for step in steps} == {name}
        assert f"{name}.w4.cpu" in {figure.key for figure in figures}
        assert all(figure.key.startswith(f"{name}.w") for figure in figures)
        assert all(figure.target is None for figure in figures)
    assert "pinned.w3.linger.p50" in {f.key for step in pinned(1.0) for f in step.figures}
    assert not any("w3" in f.key for step in fsync(1.0) for f in step.figures)


def test_topics_are_synced_only_inside_the_variant(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen = []

    def run(bench, name):
        seen.append((name, bench.topic_settings))
        return {"w4.x": 1.0}

    with Bench(tools=None, scale=TINY) as bench:
        monkeypatch.setattr(bench, "broker", lambda name: name)
        step = variant("fsync", Step("w4", "a step", (), run, 1.0), with_sync)
        assert step.run(bench, "a") == {"fsync.w4.x": 1.0}
        assert bench.topic_settings == {}
    assert seen == [("a", SYNCED)]
