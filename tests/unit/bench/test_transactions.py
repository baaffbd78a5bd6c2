import pytest
from bench.plan import SHORT
from bench.workloads import all_steps
from bench.workloads.transactions import idempotence_figures, idempotence_values


def test_w9_takes_at_most_forty_seconds_of_the_short_run():
    steps = [step for step in all_steps(SHORT.seconds, full=False) if step.workload == "w9"]
    assert 0 < sum(step.seconds * 2 * (step.runs or SHORT.runs) for step in steps) <= 40


def test_what_idempotence_costs_is_the_part_of_the_rate_that_is_lost_and_the_cpu_that_is_added():
    seconds, cpu_s, client_cpu_s = (
        {False: 4.0, True: 5.0},
        {False: 1.0, True: 2.0},
        {False: 2.0, True: 3.0},
    )
    found = idempotence_values(10**9, seconds, cpu_s, client_cpu_s)
    assert found == pytest.approx(
        {
            "w9.plain": 250,
            "w9.idempotent": 200,
            "w9.costs": 20,
            "w9.plain-cpu": 1,
            "w9.idempotent-cpu": 2,
            "w9.cpu-costs": 100,
            "w9.client-costs": 50,
        }
    )
    assert found.keys() == {figure.key for figure in idempotence_figures()}
