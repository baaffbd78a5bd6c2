"""Readers that wait at the end of a log find the same bytes by what it remembers of its ends as by the index."""

from hypothesis import given, settings
from hypothesis import strategies as st
from log_kit import append, config, new_disk, open_log, read

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("roll"), st.just(0)),
        # A reader who was told the end at so many steps of reading before.
        st.tuples(st.just("read"), st.integers(0, 12) | st.just(0)),
    ),
    min_size=5,
    max_size=40,
)


@given(STEPS, st.sampled_from((1 << 20, 500, 100, 1, 0)), st.booleans(), st.sampled_from((0, 0, 1)))
@settings(max_examples=400)
def test_same_bytes_with_and_without_hints(steps, max_bytes, min_one, behind):
    log = open_log(new_disk(), config(segment_bytes=2000, index_interval_bytes=100))
    told = [0]
    for step, number in steps:
        if step == "append":
            append(log, count=number)
        elif step == "roll":
            log.roll(0)
        else:
            offset = told[-1 - min(number, len(told) - 1)]
            end_offset = max(offset, log.log_end_offset - behind)
            limits = {"end_offset": end_offset, "min_one": min_one}
            hinted = read(log, offset, max_bytes, nowait=True, **limits)
            assert hinted == read(log, offset, max_bytes, nowait=False, **limits)
            told.append(log.log_end_offset)
