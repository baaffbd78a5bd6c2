"""What W14 asks of each Spark, and what its figures are."""

import os
import subprocess
import sys

from bench import spark_load
from bench.workloads.spark import DELIVERIES, values, w14


def test_the_targets():
    targets = {figure.key: figure.target for step in w14(1.5) for figure in step.figures}
    for size in (1024, 100):
        assert targets[f"w14.source.{size}.rate"] == 1.0
        assert targets[f"w14.source.{size}.per-cpu"] == 0.9
        for delivery, target in DELIVERIES.items():
            assert targets[f"w14.sink.{delivery}.{size}.rate"] == target


def test_figures_are_rates():
    found = {"records": 1000, "seconds": 2.0, "cpu_s": 4.0}
    assert values("w14.source.100", found) == {
        "w14.source.100.rate": 500.0,
        "w14.source.100.per-cpu": 250.0,
    }


def test_cpu_time_counts_what_was_started():
    before_s = spark_load.cpu_seconds()
    own_s = sum(os.times()[:2])
    busy = "import os\nwhile os.times().user < 0.3: sum(range(1000))"
    subprocess.run([sys.executable, "-c", busy], check=True)
    spent_s = spark_load.cpu_seconds() - before_s - (sum(os.times()[:2]) - own_s)
    assert spent_s >= 0.25
