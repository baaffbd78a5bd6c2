"""Producer state against a model that keeps every batch ever written and counts sequences one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.producer_state import Duplicate, ProducerStates
from barnabas.model.errors import ErrorCode
from barnabas.storage import producer_snapshot
from barnabas.wire.batch import BatchHeader

if TYPE_CHECKING:
    from collections.abc import Iterator

LAST_SEQUENCE = 2**31 - 1


def following(sequence: int) -> int:
    return 0 if sequence == LAST_SEQUENCE else sequence + 1


class Model:
    """(epoch, sequences, first offset) of every batch, per producer; `kept` of the last count."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[int, list[int], int]]] = {}

    def check(self, producer: int, epoch: int, sequences: list[int]) -> object:
        history = self.batches.get(producer)
        if not history:
            return None
        current, last, _ = history[-1]
        if epoch < current:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if epoch > current:
            return None if sequences[0] == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        for batch_epoch, written, offset in history[-5:]:
            if batch_epoch == epoch and written == sequences:
                return Duplicate(offset, offset + len(sequences) - 1, offset)
        if sequences[0] == following(last[-1]):
            return None
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def restart(self) -> None:
        """A snapshot keeps the last batch only."""
        for history in self.batches.values():
            del history[:-1]


# Small numbers meet often, and those near the end wrap.
SEQUENCE = st.one_of(st.integers(0, 12), st.integers(LAST_SEQUENCE - 6, LAST_SEQUENCE))
BATCH = st.tuples(st.integers(0, 1), st.integers(0, 2), SEQUENCE, st.integers(1, 4))
PRODUCER = st.integers(0, 1)
# A batch of anything; several in a row; a new epoch; one of the last again, or its sequences in the epoch of now.
STEP = st.one_of(
    BATCH,
    st.tuples(st.just("burst"), PRODUCER, st.sampled_from((1, 3, 6))),
    st.tuples(st.just("new epoch"), PRODUCER, st.integers(1, 4)),
    st.tuples(st.just("again"), PRODUCER, st.sampled_from((1, 2, 5, 6))),
    st.tuples(st.just("old sequences"), PRODUCER, st.integers(1, 4)),
    st.just("restart"),
)


def batches_of(step: tuple, model: Model) -> Iterator[tuple[int, int, int, int]]:
    """Turn a step into batches, each (producer, epoch, first sequence, count)."""
    if len(step) == 4:
        yield step
        return
    kind, producer, number = step
    history = model.batches.setdefault(producer, [])
    if not history:
        yield producer, 0, 0, number
        return
    epoch = history[-1][0]
    if kind == "burst":
        for _ in range(number):
            yield producer, epoch, following(history[-1][1][-1]), 1
    elif kind == "new epoch":
        yield producer, epoch + 1, 0, number
    else:
        old_epoch, sequences, _ = history[-min(number, len(history))]
        yield producer, old_epoch if kind == "again" else epoch, sequences[0], len(sequences)


# Long enough from the start: what goes wrong here needs a history.
@settings(max_examples=200)
@given(st.lists(STEP, min_size=12, max_size=40))
def test_as_if_everything_were_remembered(steps: list) -> None:
    states, model, offset = ProducerStates(), Model(), 0
    for step in steps:
        if step == "restart":
            states.load(producer_snapshot.decode(producer_snapshot.encode(states)))
            model.restart()
            continue
        for producer, epoch, first, count in batches_of(step, model):
            sequences = [first]
            while len(sequences) < count:
                sequences.append(following(sequences[-1]))
            header = BatchHeader(
                0, 100, 0, 2, 0, 0, count - 1, offset, offset, producer, epoch, first, count
            )
            answer = states.check(header)
            assert answer == model.check(producer, epoch, sequences)
            if answer is None:
                states.update(header, offset)
                model.batches.setdefault(producer, []).append((epoch, sequences, offset))
                offset += count
