"""The night's work: learn from the whole history, and write one mail of suggestions for each customer.

python overnight.py --bootstrap 127.0.0.1:9092 [--night 2026-11-16]

Spark ML's alternating least squares, on how much each customer showed of liking each product. Run again for the same night it sends nothing twice.
"""

from datetime import UTC, date, datetime

import click
import functions as f
from pyspark.ml.feature import StringIndexer
from pyspark.ml.recommendation import ALS
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

VISITS, MAILS = "shop-visits", "suggestion-mails"
PER_MAIL = 5
SEED = 7


def recommend(visits: DataFrame, count: int) -> DataFrame:
    """Suggest to every customer so many products not seen yet: customer, product, place (1 is best)."""
    liking = f.weighed(visits).groupBy("customer", "product").agg(F.sum("weight").alias("liking"))
    liking = liking.cache()
    customers = StringIndexer(inputCol="customer", outputCol="customer_id").fit(liking)
    products = StringIndexer(inputCol="product", outputCol="product_id").fit(liking)
    numbered = products.transform(customers.transform(liking))
    blocks = max(visits.sparkSession.sparkContext.defaultParallelism, 1)
    als = ALS(
        userCol="customer_id", itemCol="product_id", ratingCol="liking", implicitPrefs=True,
        rank=16, regParam=0.05, alpha=2.0, maxIter=6, seed=SEED, numUserBlocks=blocks, numItemBlocks=blocks,
    )  # fmt: skip
    model = als.fit(
        numbered.select(F.col("customer_id").cast("int"), F.col("product_id").cast("int"), "liking")
    )
    names = F.array(*[F.lit(each) for each in products.labels])
    people = F.array(*[F.lit(each) for each in customers.labels])
    seen_max = liking.groupBy("customer").count().agg(F.max("count")).first()[0]
    # As many more as one may have seen: those are left out.
    found = model.recommendForAllUsers(min(count + seen_max, len(products.labels)))
    flat = found.select("customer_id", F.explode("recommendations").alias("r")).select(
        F.element_at(people, F.col("customer_id") + 1).alias("customer"),
        F.element_at(names, F.col("r.product_id") + 1).alias("product"),
        F.col("r.rating").alias("rating"),
    )
    new = flat.join(liking, ["customer", "product"], "left_anti")
    order = Window.partitionBy("customer").orderBy(F.desc("rating"), "product")
    return (
        new.withColumn("place", F.row_number().over(order))
        .where(F.col("place") <= count)
        .drop("rating")
    )


def mails(suggestions: DataFrame, night: date) -> DataFrame:
    """Write one mail for each customer, as records keyed by customer."""
    listed = suggestions.groupBy("customer").agg(
        F.transform(F.sort_array(F.collect_list(F.struct("place", "product"))), lambda each: each["product"]).alias("products")
    )  # fmt: skip
    subject = F.format_string("Picked for you: %s and more", F.col("products")[0])
    body = F.to_json(
        F.struct(
            "customer",
            F.lit(night.isoformat()).alias("night"),
            subject.alias("subject"),
            "products",
        )
    )
    return listed.select(F.col("customer").alias("key"), body.alias("value"))


def send_mails(spark: SparkSession, bootstrap: str, night: date) -> None:
    """Read the history to its end, and write the night's mails once."""
    here = {"kafka.bootstrap.servers": bootstrap}
    visits = (
        spark.read.format("barnabas")
        .options(**here, subscribe=VISITS, valueFormat="json", valueSchema=f.VISIT)
        .load()
        .where("_error IS NULL")
        .select("value.*")
        .where("customer IS NOT NULL AND product IS NOT NULL")
    )
    written = (
        mails(recommend(visits, PER_MAIL), night).repartition(2, "key").sortWithinPartitions("key")
    )
    epoch = (night - date(1970, 1, 1)).days
    written.write.format("barnabas").mode("append").options(
        **here, topic=MAILS, sinkId="suggestion-mails", epoch=epoch
    ).save()


@click.command(help=__doc__)
@click.option("--bootstrap", default="127.0.0.1:9092", show_default=True, help="Where brokers are.")
@click.option(
    "--night", type=click.DateTime(["%Y-%m-%d"]), help="Which night's mails; today's if not said."
)
def main(bootstrap: str, night: datetime | None) -> None:
    """Do the night's work."""
    from barnabas.pipelines import session

    spark = session("suggestions overnight")
    send_mails(spark, bootstrap, (night or datetime.now(UTC)).date())
    click.echo(f"the mails of the night are in {MAILS}")


if __name__ == "__main__":
    main()
