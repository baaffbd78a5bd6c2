"""The functions on tiny frames."""

import functions
import pytest

from barnabas.pipelines import session


@pytest.fixture(scope="module")
def spark():
    """A Spark for these tests."""
    return session(master="local[1]", quick=True)


def test_only_large_orders_go_on(spark):
    orders = spark.createDataFrame(
        [("ann", 99.0), ("bob", 100.0)], "customer STRING, amount DOUBLE"
    )
    assert [row.key for row in functions.large(orders).collect()] == ["bob"]
