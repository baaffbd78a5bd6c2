import pytest
from bench import plan
from bench.admin import BrokerFailed
from bench.figures import Figure
from bench.plan import TINY, Bench, Skip, Step, run_all
from bench.progress import Progress, bar, clock
from bench.workloads import LONG, NAMED, all_steps, chosen

FIGURE = Figure("w4.x", "x", "s")


@pytest.fixture
def bench(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Bench(tools=None, scale=TINY._replace(runs=3)) as bench:
        yield bench


def step(run):
    return Step("w4", "a step", (FIGURE,), run, 1.0)


def test_every_step_runs_three_times_on_each_broker_in_turn(bench):
    seen = []

    def run(_bench, name):
        seen.append(name)
        return {"w4.x": len(seen)}

    outcome = run_all(bench, [step(run)], ["a", "b"], Progress(6))
    assert "".join(seen) == "abbaab"
    assert outcome.results["w4.x"].samples == {"a": [1, 4, 5], "b": [2, 3, 6]}


@pytest.fixture(autouse=True)
def short_names(monkeypatch):
    monkeypatch.setattr(plan, "SHOWN", {"a": "A", "b": "B"})


def test_a_failure_on_one_broker_leaves_the_other_and_the_next_step(bench):
    def run(_bench, name):
        if name == "a":
            raise BrokerFailed("gone")
        return {"w4.x": 1}

    outcome = run_all(bench, [step(run), step(lambda *_: {"w4.x": 2})], ["a", "b"], Progress(6))
    assert outcome.failures == ["w4 a step · A: gone"]
    assert outcome.results["w4.x"].samples == {"a": [2, 2, 2], "b": [1, 1, 1, 2, 2, 2]}


def test_a_skip_is_said_once(bench):
    def run(_bench, _name):
        raise Skip("not there yet")

    outcome = run_all(bench, [step(run)], ["a", "b"], Progress(6))
    assert outcome.skipped == ["w4 a step: not there yet"]
    assert not outcome.failures


def test_no_step_begins_when_the_time_is_up(bench):
    bench.scale = bench.scale._replace(limit_s=-1)
    outcome = run_all(bench, [step(lambda *_: {"w4.x": 1})], ["a", "b"], Progress(6))
    assert outcome.skipped == ["w4 a step: the time was up"]
    assert not outcome.results


def test_the_folder_goes_with_the_bench(bench):
    assert bench.folder.exists()
    bench.__exit__()
    assert not bench.folder.exists()


def test_workloads_can_be_chosen():
    steps = all_steps(1.0, full=True)
    assert {s.workload for s in chosen(steps, {"w4"})} == {"w4"}
    assert {s.workload for s in chosen(steps, {"w2"})} == {"w2", "memory"}
    assert chosen(steps, set()) == steps
    assert set(LONG) <= {s.workload for s in steps}
    assert not set(LONG) & {s.workload for s in all_steps(1.0, full=False)}
    assert not set(NAMED) & {s.workload for s in steps}


@pytest.mark.parametrize("name", LONG | NAMED)
def test_what_is_asked_for_is_run(name):
    asked = all_steps(1.0, full=False, only={name})
    assert {s.workload for s in chosen(asked, {name})} == {name}


def test_groups_are_measured_in_part_by_the_short_run_and_whole_if_asked_for():
    short, asked = (
        [s.label for s in all_steps(1.0, full=False, only=only) if s.workload == "groups"]
        for only in (set(), {"groups"})
    )
    assert set(short) < set(asked)
    assert len(asked) == 4


def test_every_figure_has_a_key_of_its_own_under_its_workload():
    keys = [
        (s.workload, f.key) for s in all_steps(1.0, full=True, only=set(NAMED)) for f in s.figures
    ]
    assert len({key for _, key in keys}) == len(keys)
    assert all(key.startswith(f"{workload}.") for workload, key in keys)


def test_the_short_run_is_planned_for_less_than_ten_minutes():
    planned = sum(
        s.seconds * (s.runs or plan.SHORT.runs) * 2
        for s in all_steps(plan.SHORT.seconds, full=False)
    )
    assert planned < 600


def test_the_full_run_is_planned_for_less_than_an_hour_and_a_half():
    steps = all_steps(plan.FULL.seconds, full=True)
    assert sum(s.seconds * (s.runs or plan.FULL.runs) * 2 for s in steps) < 5_400


def test_a_broker_is_warm_when_requests_get_no_cheaper():
    assert not plan.is_steady([])
    assert not plan.is_steady([1.0, 1.0])
    assert plan.is_steady([1.0, 1.0, 1.0])
    assert not plan.is_steady([9.0, 5.0, 4.0])
    assert not plan.is_steady([9.0, 9.0, 5.0])
    assert plan.is_steady([9.0, 5.0, 4.9, 5.2])


def test_progress():
    assert clock(125.9) == "2:05"
    assert bar(0.5).count("█") == 15
    progress = Progress(100)
    assert progress.left_s(0) == 100
    progress.advance(50)
    assert progress.left_s(100) == 100
    progress.advance(500)
    assert progress.left_s(1) == 0
