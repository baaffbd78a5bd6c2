import pytest
from bench.clients import MIB
from bench.figures import BARNABAS, KAFKA
from bench.workloads.compaction import Cleaning, cleanings

OURS = """2026-11-16 05:44:01 INFO barnabas.broker.compaction: alone-0: compacted 199999000 bytes (363000 records) to 91000000 (165000) in 1250 ms; clean up to offset 363000
2026-11-16 05:44:09 INFO barnabas.broker.compaction: beside-0: compacted 399999000 bytes (726000 records) to 182000000 (330000) in 2600 ms; clean up to offset 726000
2026-11-16 05:44:10 INFO barnabas.broker.compaction: alone-0: compacted 91000000 bytes (165000 records) to 91000000 (165000) in 700 ms; clean up to offset 370000
"""
THEIRS = """[2026-11-16 05:44:01,123] INFO Starting cleaning of log alone-0. (org.apache.kafka.storage.internals.log.Cleaner)
[2026-11-16 05:44:02,123] INFO [kafka-log-cleaner-thread-0]:
\tLog cleaner thread 0 cleaned log alone-0 (dirty section = [0, 363000])
\t1,190.7 MB of log processed in 2.5 seconds (476.3 MB/sec).
\tIndexed 1,190.7 MB in 1.0 seconds (1,190.7 MB/sec, 40.0% of total time)
\tBuffer utilization: 4.1%
\tCleaned 1,190.7 MB in 1.5 seconds (793.8 MB/sec, 60.0% of total time)
\tStart size: 1,190.7 MB (2,363,000 messages)
\tEnd size: 586.8 MB (1,165,000 messages)
\t50.7% size reduction (50.7% fewer messages)
 (org.apache.kafka.storage.internals.log.LogCleaner)
"""


def test_the_first_cleaning_of_each_log_counts():
    assert cleanings(BARNABAS, OURS) == {
        "alone-0": Cleaning(199_999_000, 91_000_000, 1.25),
        "beside-0": Cleaning(399_999_000, 182_000_000, 2.6),
    }


def test_apache_kafka_counts_in_mebibytes():
    ((partition, found),) = cleanings(KAFKA, THEIRS).items()
    assert partition == "alone-0"
    assert found == pytest.approx((1190.7 * MIB, 586.8 * MIB, 2.5))


@pytest.mark.parametrize("name", [BARNABAS, KAFKA])
def test_a_log_that_says_nothing_of_it(name):
    assert cleanings(name, "[2026] INFO started\n") == {}
