"""Random histories of transactions: who reads committed records gets exactly those, in order, also after a crash.

The reader here does what Kafka's consumers do: it takes the list of aborted transactions with the bytes, and leaves out the
batches of a producer from the first offset of its aborted transaction on, up to its marker.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from log_kit import NOW, config, new_disk, open_log, read

from barnabas.wire.batch import TRANSACTIONAL, Producer, Record, build, headers, read_header
from barnabas.wire.control_batch import EndMarker, read_marker

SETTINGS = config(segment_bytes=500, index_interval_bytes=100)
PRODUCERS = st.integers(0, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PRODUCERS, st.integers(1, 3)),
        st.tuples(st.just("plain"), st.integers(1, 3)),
        st.tuples(st.just("end"), PRODUCERS, st.booleans()),
        st.tuples(st.just("roll")),
        st.tuples(st.just("reopen"), st.booleans()),
    ),
    max_size=40,
)


class History:
    """A log, and what should be in it: (offset, producer, how its transaction ended) of every record."""

    def __init__(self) -> None:
        self.disk = new_disk()
        self.log = open_log(self.disk, SETTINGS)
        self.sequences: dict[int, int] = {}
        self.open: dict[int, list[int]] = {}
        self.visible: set[int] = set()
        self.records = 0

    def write(self, producer: int, count: int) -> None:
        first = self.sequences.get(producer, 0)
        self.sequences[producer] = first + count
        offset = self._append(count, TRANSACTIONAL, Producer(producer, 0, first))
        self.open.setdefault(producer, []).extend(range(offset, offset + count))

    def plain(self, count: int) -> None:
        offset = self._append(count, 0, Producer())
        self.visible.update(range(offset, offset + count))

    def end(self, producer: int, commit: bool) -> None:
        self.log.append_marker(EndMarker(commit, 0), producer, 0, 0, NOW)
        offsets = self.open.pop(producer, [])
        if commit:
            self.visible.update(offsets)

    def roll(self) -> None:
        self.log.roll(NOW)

    def reopen(self, clean: bool) -> None:
        self.log.close(clean=clean)
        point = self.log.recovery_point
        self.log = open_log(self.disk, SETTINGS, clean=clean, recovery_point=point)

    @property
    def stable_offset(self) -> int:
        return min((offsets[0] for offsets in self.open.values()), default=self.log.log_end_offset)

    def _append(self, count: int, attributes: int, producer: Producer) -> int:
        records = [Record(number, NOW, None, b"12345678") for number in range(count)]
        batch = build(records, attributes=attributes, producer=producer)
        return self.log.append(memoryview(batch), read_header(batch), 0, NOW).base_offset


def read_committed(log, offset: int, stable: int, max_bytes: int) -> list[int]:
    seen: list[int] = []
    while (found := read(log, offset, max_bytes, end_offset=stable)) is not None:
        aborted = log.aborted_transactions(offset, found, nowait=False)
        to_come = sorted((one.first_offset, one.producer_id) for one in aborted)
        leaving_out: set[int] = set()
        data = memoryview(found.read())
        for position, header in headers(data):
            while to_come and to_come[0][0] <= header.last_offset:
                leaving_out.add(to_come.pop(0)[1])
            if header.is_control:
                marker = read_marker(data[position : position + header.size])
                assert marker is not None
                if not marker.commit:
                    leaving_out.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in leaving_out):
                seen += [at for at in range(header.base_offset, header.next_offset) if at >= offset]
            following = header.next_offset
        offset = following
    return seen


@given(STEPS, st.integers(0, 20), st.sampled_from((90, 300, 1 << 20)))
def test_committed_records_and_no_others(steps: list[tuple], skipped: int, max_bytes: int) -> None:
    history = History()
    for name, *arguments in steps:
        getattr(history, name)(*arguments)
        log = history.log
        stable = log.producers.transactions.first_unstable(log.log_end_offset)
        assert stable == history.stable_offset
    start = min(skipped, stable if steps else 0)
    expected = [at for at in sorted(history.visible) if start <= at < history.stable_offset]
    assert read_committed(history.log, start, history.stable_offset, max_bytes) == expected
