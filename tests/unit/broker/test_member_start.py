"""What a member of a cluster does when it starts: reads what it needs, and says what it lacks."""

import logging

import pytest
from member_kit import new_store, put, put_topic, start_member

from barnabas.ports import Create


@pytest.mark.parametrize(
    ("in_sync", "level", "said"),
    [
        ((2,), logging.INFO, "1 partitions begin empty, and are filled by those that lead them: t-0"),
        ((2, 1), logging.CRITICAL, "1 partitions have no folder in log.dirs and begin anew, empty: t-0"),
    ],
)  # fmt: skip
def test_a_replica_without_a_log_is_alarming_only_if_it_counted(caplog, in_sync, level, said):
    caplog.set_level(logging.INFO)
    store = new_store()
    put_topic(store, "t", (2, 1), in_sync)
    start_member(store)
    [record] = [each for each in caplog.records if "t-0" in each.getMessage() and "begin" in each.getMessage()]  # fmt: skip
    assert record.levelno == level
    assert record.getMessage().startswith(said)


def test_what_others_keep_in_the_same_place_is_not_read():
    store = new_store()
    put(store, Create("/another/program", b"\xff"))
    member = start_member(store)
    assert member.node.members.is_registered
    assert "/config" in member.events.trees_read
    assert "/" not in member.events.trees_read
