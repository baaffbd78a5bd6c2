"""What is asked of the templates, what their figures are, and that a wrong count is seen."""

import json

import pytest
from bench import generated
from bench.clients import ClientFailed
from bench.plan import TINY, Bench
from bench.workloads.templates import (
    TEMPLATES,
    check_counts,
    run_template,
    start_ms,
    templates,
    values,
)


def test_every_template_is_measured_but_the_one_to_start_from():
    folders = {path.parent.name for path in generated.TEMPLATES.glob("*/spark-pipeline.yml")}
    assert TEMPLATES.keys() == folders - {"starter"}


def test_only_the_window_count_has_a_peer():
    targets = {figure.key: figure.target for step in templates(1.5) for figure in step.figures}
    assert {key for key, target in targets.items() if target} == {"templates.windows.rate"}
    with Bench(None, TINY) as bench:
        assert run_template(bench, "kafka", template="metrics") == {}


def test_figures_are_rates():
    found = {"records": 1000, "seconds": 2.0, "cpu_s": 4.0}
    assert values("templates.logs", found) == {
        "templates.logs.rate": 500.0,
        "templates.logs.per-cpu": 250.0,
    }


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_a_generator_makes_has_a_topic(template):
    made = list(generated.events(template, 1, 50))
    assert made
    assert {event.topic for event in made} <= set(TEMPLATES[template].topics)


def test_readings_are_counted_by_their_minute_unless_they_are_late():
    made = list(generated.events("metrics", 1, 5_000))
    counts = generated.expected_counts(made)
    assert 0.98 * len(made) < sum(counts.values()) < len(made)
    assert {start_ms(minute) % 60_000 for minute in counts} == {0}
    late = made[0]._replace(timestamp_ms=made[0].timestamp_ms + 200_000)
    assert generated.expected_counts([late, late._replace(value=b"{")]) == {}


def test_counts_must_be_those_that_were_generated(tmp_path):
    counts = {f"cart/cpu/gauge/{60_000 * minute}": 10 for minute in range(20)}
    path = tmp_path / "expected.json"
    path.write_text(json.dumps(counts))
    check_counts(counts, path)
    # Minutes that are still open may be missing.
    check_counts(dict(list(counts.items())[:15]), path)
    for wrong in (
        {**counts, "cart/cpu/gauge/0": 9},
        {**counts, "mail/cpu/gauge/0": 10},
        dict(list(counts.items())[1:]),
    ):
        with pytest.raises(ClientFailed, match="not counted"):
            check_counts(wrong, path)
