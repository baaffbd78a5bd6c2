"""Transactions of version 1, which Apache Kafka 3.9 has: the same stories as in test_client."""

import pytest
from compat import test_client as stories
from compat.client_clusters import kafka_listeners

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    with kafka_listeners(tmp_path_factory.mktemp("kafka"), "3.9.2") as listeners:
        yield listeners


@pytest.mark.parametrize(
    "story",
    [
        stories.test_committed_and_aborted,
        stories.test_an_older_producer_is_fenced_and_its_transaction_aborted,
        stories.test_a_transaction_that_somebody_else_ends,
        stories.test_a_refused_batch_ends_the_transaction_and_the_next_works,
    ],
    ids=lambda story: story.__name__.removeprefix("test_"),
)
def test_transactions_of_version_1(there, topic_name, story):
    with there.client() as client:
        story(there, client, topic_name)
