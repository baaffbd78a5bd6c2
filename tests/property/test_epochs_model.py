"""The leader-epoch history against a model that remembers the epoch of every single record."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.epochs import LeaderEpochs
from barnabas.storage import epoch_file

STEP = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 3), st.integers(1, 5)),
    st.tuples(st.just("cut end"), st.integers(0, 30), st.just(0)),
    st.tuples(st.just("cut start"), st.integers(0, 30), st.just(0)),
    st.tuples(st.just("restart"), st.just(0), st.just(0)),
)


class Records:
    """The epoch of each record from `start` on."""

    def __init__(self) -> None:
        self.start = 0
        self.epochs: list[int] = []

    @property
    def end(self) -> int:
        return self.start + len(self.epochs)

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        if not self.epochs or epoch > self.epochs[-1]:
            return -1, -1
        if epoch < self.epochs[0]:
            return epoch, self.start
        below = [known for known in self.epochs if known <= epoch]
        return below[-1], self.start + len(below)


def play(step: tuple[str, int, int], history: LeaderEpochs, records: Records) -> LeaderEpochs:
    kind, number, count = step
    if kind == "append":
        epoch = (records.epochs[-1] if records.epochs else 0) + number
        history.assign(epoch, records.end)
        records.epochs += [epoch] * count
    elif kind == "cut end" and records.start <= number < records.end:
        history.truncate_from_end(number)
        del records.epochs[number - records.start :]
    elif kind == "cut start" and records.start <= number < records.end:
        history.truncate_from_start(number)
        del records.epochs[: number - records.start]
        records.start = number
    elif kind == "restart":
        return LeaderEpochs(epoch_file.decode(epoch_file.encode(history.entries)))
    return history


@given(st.lists(STEP, max_size=30))
def test_as_if_every_record_were_remembered(steps: list[tuple[str, int, int]]) -> None:
    history, records = LeaderEpochs(), Records()
    for step in steps:
        history = play(step, history, records)
        assert history.latest == (records.epochs[-1] if records.epochs else -1)
        for offset, epoch in enumerate(records.epochs, start=records.start):
            assert history.epoch_at(offset) == epoch
        for epoch in range(-1, history.latest + 2):
            expected = (-1, -1) if epoch == -1 else records.end_offset_for(epoch)
            assert history.end_offset_for(epoch, records.end) == expected
