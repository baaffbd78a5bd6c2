"""Opening every log at a start: what the progress line says."""

from collections import deque

from barnabas.broker.log_loading import _AT_ONCE, _Progress, _take, _ToOpen
from barnabas.model.cluster import Topic

TOPIC = Topic("t", bytes(16), [])
GIB = 1024**3


def todo(size):
    return _ToOpen(TOPIC, 0, size)


def test_the_line_says_what_is_done_and_what_is_left(caplog):
    caplog.set_level("INFO")
    progress = _Progress(0)
    for _ in range(100):
        progress.expect(todo(GIB // 10))
    progress.on_opened([todo(GIB // 10)] * 31, 2000)
    progress.on_opened([todo(GIB // 10)] * 6, 2500)
    assert [record.getMessage() for record in caplog.records] == [
        "recovering logs: 31 of 100, 3.1 of 10.0 GB, 4 s left"
    ]
    assert progress.line(3700) == "37 of 100, 3.7 of 10.0 GB, 6 s left"


def test_nothing_is_said_where_nothing_is_checked(caplog):
    caplog.set_level("INFO")
    progress = _Progress(0)
    progress.expect(todo(0))
    progress.on_opened([todo(0)], 60_000)
    assert not caplog.records


def test_small_logs_are_opened_many_at_once_and_large_ones_alone():
    queue = deque([todo(GIB), *[todo(0)] * (_AT_ONCE + 1)])
    assert [len(_take(queue)) for _ in range(3)] == [1, _AT_ONCE, 1]
