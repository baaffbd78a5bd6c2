"""What pyspark writes to stderr beside the errors that it raises."""

import logging

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

# Spark, on a machine with much else to do.
pytestmark = pytest.mark.timeout(1000)


def test_errors_of_queries_are_raised_and_not_written_as_well(spark, capfd):
    from pyspark.errors import AnalysisException

    from barnabas.pipelines.problem import silence_traces

    def fail():
        with pytest.raises(AnalysisException, match="usr"):
            spark.sql("SELECT usr FROM range(1)")
        with pytest.raises(AnalysisException, match="usr"):
            spark.range(1).select("usr")
        return capfd.readouterr().err

    assert "Py4JJavaError" in fail(), "pyspark does so by itself"
    try:
        silence_traces()
        assert fail() == ""
    finally:
        for name in LOGGERS:
            logging.getLogger(name).disabled = False
