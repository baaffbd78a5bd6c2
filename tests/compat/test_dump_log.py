"""Kafka's own DumpLogSegments on the files of a running broker, after a client wrote to it with every codec."""

from pathlib import Path

import confluent_kafka as ck
import kafka
import pytest
from compat.records import CODECS, RECORDS, records

pytestmark = pytest.mark.java

TIMEOUT_S = 30


@pytest.fixture(scope="module")
def partition_dir(bootstrap):
    """A partition with batches of every codec."""
    topic = "dump-log"
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        if topic in admin.list_topics():  # an outside broker may have it from an earlier run
            admin.delete_topics([topic])
            while topic in admin.list_topics():
                pass
        admin.create_topics([topic], wait_for_metadata=True)
        for codec in CODECS:
            producer = ck.Producer(
                {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50}
            )
            for key, value, headers, timestamp in records(codec):
                producer.produce(topic, value, key, 0, timestamp=timestamp, headers=headers)
            assert producer.flush(TIMEOUT_S) == 0
        ((directory,),) = [broker["log_dirs"] for broker in admin.describe_log_dirs([topic])]
    finally:
        admin.close()
    path = Path(directory["log_dir"]) / f"{topic}-0"
    if not path.is_dir():
        pytest.skip("the broker's files are not on this machine")
    return path


@pytest.mark.parametrize(
    ("release", "tool"),
    [("4.3.1", "org.apache.kafka.tools.DumpLogSegments"), ("3.9.2", "kafka.tools.DumpLogSegments")],
)
def test_dump_log_has_no_complaint(kafka_tool, partition_dir, release, tool):
    # Not the indexes: while a broker runs, the active segment's may end in zeros (Kafka's) or lag behind (ours).
    asked = ["--deep-iteration", "--print-data-log", "--files"]
    done = kafka_tool(tool, *asked, str(partition_dir / f"{0:020}.log"), release=release)
    lines = done.stdout.splitlines()
    dumped = [line for line in lines if line.startswith("| offset: ")]
    assert [int(line.split()[2]) for line in dumped] == list(range(RECORDS * len(CODECS)))
    assert [line for line in lines if "payload: zstd-value-19-" in line]
    assert {line.split("isvalid: ")[1].split()[0] for line in lines if "isvalid" in line} == {
        "true"
    }
    complaints = [line for line in lines if "ismatch" in line or "out of order" in line.lower()]
    assert complaints == []
    assert [line for line in done.stderr.splitlines() if "log4j" not in line.lower()] == []
