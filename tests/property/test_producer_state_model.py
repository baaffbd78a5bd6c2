"""Producer state against a model that keeps every batch ever written and counts sequences one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.producer_state import Duplicate, ProducerStates
from barnabas.model.errors import ErrorCode
from barnabas.storage import producer_snapshot
from barnabas.wire.batch import BatchHeader

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
BATCH = st.tuples(st.integers(0, 2), st.integers(0, 2), SEQUENCE, st.integers(1, 4))
# A batch of anything, the batch that comes next, one of the last again, or a restart.
STEP = st.one_of(
    BATCH,
    st.tuples(st.just("next"), st.integers(0, 2), st.integers(1, 4)),
    st.tuples(st.just("again"), st.integers(0, 2), st.integers(1, 7)),
    st.just("restart"),
)


def chosen(step: tuple, model: Model) -> tuple[int, int, int, int]:
    """Turn a step into (producer, epoch, first sequence, count)."""
    if step[0] not in ("next", "again"):
        return step
    kind, producer, number = step
    history = model.batches.get(producer)
    if not history:
        return producer, 0, 0, number
    if kind == "next":
        epoch, sequences, _ = history[-1]
        return producer, epoch, following(sequences[-1]), number
    epoch, sequences, _ = history[-min(number, len(history))]
    return producer, epoch, sequences[0], len(sequences)


@given(st.lists(STEP, max_size=40))
def test_as_if_everything_were_remembered(steps: list) -> None:
    states, model, offset = ProducerStates(), Model(), 0
    for step in steps:
        if step == "restart":
            states.load(producer_snapshot.decode(producer_snapshot.encode(states)))
            model.restart()
            continue
        producer, epoch, first, count = chosen(step, model)
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
