import pytest
from bench.workloads.scaling import TOLERANCE, Point, growth, point_figures, scaling

KIND = "partitions"


def values(*points):
    return growth(KIND, [Point(*point) for point in points])


def test_a_linear_broker_meets_every_bound():
    found = values((1, 60, 30), (100, 60, 30.5), (1_000, 61, 35), (10_000, 62, 80))
    grown = [value for key, value in found.items() if key.endswith("growth")]
    assert len(grown) == 5
    assert all(value <= TOLERANCE for value in grown)
    assert found["scaling.partitions.10000.memory"] == pytest.approx(5)


def test_cost_that_follows_the_count_is_seen_at_its_step():
    found = values((1, 60, 30), (100, 61, 31), (1_000, 61, 36), (10_000, 600, 486))
    assert found["scaling.partitions.1000.cpu-growth"] == 1
    assert found["scaling.partitions.10000.cpu-growth"] > TOLERANCE
    assert found["scaling.partitions.10000.memory-growth"] > TOLERANCE


def test_cpu_is_judged_for_each_tenfold():
    found = values((1, 50, 30), (100, 100, 30), (1_000, 150, 30), (5_000, 300, 30))
    steps = [found[f"scaling.partitions.{count}.cpu-growth"] for count in (100, 1_000, 5_000)]
    assert steps == pytest.approx([2**0.5, 1.5, 2 ** (1 / 0.69897)])


def test_memory_that_shrinks_is_no_cost():
    found = values((1, 60, 30), (100, 60, 29), (1_000, 60, 28))
    assert found["scaling.partitions.1000.memory"] < 0
    assert found["scaling.partitions.1000.memory-growth"] == 0


def test_every_value_has_a_figure_and_every_figure_a_value():
    counts = (1, 100, 1_000)
    figures = {f.key for n in range(3) for f in point_figures(KIND, counts, n)}
    assert figures == set(values(*((count, 1, 1) for count in counts)))
    assert {step.workload for step in scaling(1.0)} == {"scaling"}
