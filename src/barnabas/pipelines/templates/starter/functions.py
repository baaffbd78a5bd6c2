"""What the pipeline computes: plain functions of frames, for tests to call."""

from pyspark.sql import DataFrame

LARGE = 100.0


def orders(records: DataFrame) -> DataFrame:
    """Take the fields of an order out of its record."""
    return records.select("value.customer", "value.amount", "timestamp")


def large(orders: DataFrame) -> DataFrame:
    """Leave large orders, as records with the customer as their key."""
    return orders.where(f"amount >= {LARGE}").selectExpr(
        "customer AS key", "to_json(struct(customer, amount)) AS value"
    )
