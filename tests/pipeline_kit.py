"""A streaming query and a sink as Spark drives them, without Spark: the same calls, in this process."""

import json

import pyarrow as pa
from topic_kit import consume_all

from barnabas.pipelines import delivery
from barnabas.pipelines.options import sink_options, source_options
from barnabas.pipelines.source import TopicReader, TopicStreamReader
from barnabas.runtime.blocking_client import BlockingClient


class Stream:
    """A streaming query: a checkpoint of offsets, and a reader that comes and goes."""

    def __init__(self, bootstrap, **options):
        self._options = {"kafka.bootstrap.servers": bootstrap, **options}
        self.offset = None
        self.restart()

    def restart(self):
        self.reader = TopicStreamReader(source_options(self._options, streaming=True), None)

    def stop(self):
        self.reader.stop()

    def next(self):
        """Run a batch: the values it read, None if there was nothing new."""
        if self.offset is None:
            self.offset = self.reader.initialOffset()
        end = self.reader.latestOffset(self.offset, self.reader.getDefaultReadLimit())
        if end == self.offset:
            return None
        found = values(self.reader, self.reader.partitions(self.offset, end))
        self.offset = json.loads(json.dumps(end))
        return found

    def everything(self):
        """Run batches until there is nothing new."""
        batches = []
        while (found := self.next()) is not None:
            batches.append(found)
        return batches


class Sink:
    """A sink that writes one topic, in one task."""

    def __init__(self, bootstrap, topic, **more):
        self.bootstrap, self.topic, self.name = bootstrap, topic, f"sink-{topic}-0"
        options = {"kafka.bootstrap.servers": bootstrap, "topic": topic, **more}
        self.options = sink_options(options, streaming=True)

    def client(self):
        return BlockingClient(self.options.settings)

    def write(self, epoch, *batches):
        """Write an epoch."""
        with self.client() as client:
            return delivery.write_epoch(client, self.options, self.name, epoch, iter(batches))

    def values(self, topic=None):
        return [each.value().decode() for each in consume_all(self.bootstrap, topic or self.topic)]


def batch_reader(bootstrap, **options):
    """What reads a batch."""
    texts = {"kafka.bootstrap.servers": bootstrap, **options}
    return TopicReader(source_options(texts, streaming=False), None)


def values(reader, tasks):
    """The values that tasks read."""
    rows = [
        each.as_py() for task in tasks for batch in reader.read(task) for each in batch["value"]
    ]
    return [None if each is None else each.decode() for each in rows]


def rows(*values, **columns):
    """Rows for a sink."""
    return pa.RecordBatch.from_pydict({"value": list(values), **columns})
