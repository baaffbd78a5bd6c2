"""What a million events a second would need: the arithmetic, and that the page has what follows from the figures."""

import os

import pytest
from bench import report, sizing
from bench.workloads.templates import TEMPLATES

MEASURED = sizing.Measured(
    dict.fromkeys(TEMPLATES, 20_000.0), dict.fromkeys(TEMPLATES, 100.0), 20.0, 0.5
)


def page(figures):
    parts = [
        *report.marks("templates"),
        *report.marks("w13"),
        *report.marks(),
    ]
    templates = [
        f"| {name} | 8,000 (7,000..9,000) | - | events/s |  |  |  |\n"
        f"| {sizing.PER_CPU} | 4,000 | - | events |  |  |  |\n| {sizing.BYTES} | 150 | - | B |  |  |  |"
        for name in figures
    ]
    w13 = f"| {sizing.WRITE_COST[0]} | 64.6 (1..2) | 23.9 | MB/s | 2.7x | | |\n| {sizing.WRITE_COST[1]} | 23.3 (11.8..29.9) | 75 | s/GB | | | |"
    whole = f"| {sizing.READ_COST} | 0.584 (0.5..0.6) | 1.1 | s/GB | | | |"
    texts = ["\n".join(templates), "", w13, "", whole, ""]
    return "\n".join(line for pair in zip(parts, texts, strict=True) for line in pair)


def test_figures_are_read_from_the_page():
    found = sizing.read(page(TEMPLATES))
    assert found == sizing.Measured(
        dict.fromkeys(TEMPLATES, 4000.0), dict.fromkeys(TEMPLATES, 150.0), 23.3, 0.584
    )


def test_without_all_figures_there_is_no_table():
    found = sizing.read(page(list(TEMPLATES)[1:]))
    assert found is None
    assert "Not measured yet" in sizing.table(found)


def test_the_arithmetic():
    need = sizing.need("metrics", MEASURED)
    assert need.spark_cores == 72  # 1,000,000 / 20,000 / 0.7
    assert need.mb_s == pytest.approx(100)
    assert need.broker_cores == 4  # 0.1 GB/s x (20 + 3 x 0.5) / 0.7
    assert need.network_gbit_s == pytest.approx(0.1 * 8 * 6)
    assert need.disk_tb_day == pytest.approx(25.92)


def test_the_page_follows_from_the_figures():
    """BARNABAS_UPDATE_DOCS=1 writes it anew."""
    if os.environ.get("BARNABAS_UPDATE_DOCS"):
        sizing.write_page()
    text = sizing.PAGE.read_text()
    assert text == sizing.replaced(text, sizing.table(sizing.read(report.DOCS.read_text())))
