"""Notices of changed settings: taken by every broker, and away once all have had the time."""

import pytest
from member_kit import config_data, new_store, put, put_topic, start_member

from barnabas.broker import cluster_znodes
from barnabas.broker.cluster_znodes import CONFIG_CHANGES
from barnabas.broker.edge import Contained
from barnabas.broker.notices import KEPT_MS
from barnabas.ports import Create, SetData


def notices(store):
    return [path for path in store.tree if path.startswith(CONFIG_CHANGES + "/")]


def settings_of_t(retention_ms):
    return SetData("/config/topics/t", config_data({"retention.ms": retention_ms}))


def change(store, member, retention_ms):
    put(store, settings_of_t(retention_ms), cluster_znodes.config_notice("topics/t"))
    member.events.settle()


def test_a_notice_is_kept_for_others_and_goes_with_a_later_one():
    store = new_store()
    put_topic(store, "t", (1,), (1,))
    member = start_member(store)
    for elapsed_ms, kept in ((0, 1), (KEPT_MS - 1, 2), (1, 2), (KEPT_MS, 1)):
        member.events.advance(elapsed_ms)
        change(store, member, str(5000 + elapsed_ms))
        assert member.node.topics.by_name["t"].overrides == {"retention.ms": str(5000 + elapsed_ms)}
        assert len(notices(store)) == kept, elapsed_ms


def test_who_missed_notices_reads_all_settings_again():
    store = new_store()
    put_topic(store, "t", (1,), (1,))
    member = start_member(store)
    # Its notice came and went, and that of something else is the first that is seen.
    put(store, settings_of_t("7"), cluster_znodes.config_notice("topics/t"))
    store.tree.pop(notices(store)[0])
    put(store, cluster_znodes.config_notice("topics/other"))
    member.events.settle()
    assert member.node.topics.by_name["t"].overrides == {"retention.ms": "7"}


def test_notices_of_a_store_that_was_put_back_are_read_though_their_numbers_come_again():
    store = new_store()
    put_topic(store, "t", (1,), (1,))
    member = start_member(store)
    change(store, member, "1")
    store.copy()
    change(store, member, "2")
    change(store, member, "3")
    store.put_back()
    member.events.advance(60_000)
    assert member.node.topics.by_name["t"].overrides == {"retention.ms": "1"}
    change(store, member, "4")
    assert member.node.topics.by_name["t"].overrides == {"retention.ms": "4"}


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b'{"version": 2}'])
def test_a_notice_that_cannot_be_read_does_not_hold_up_those_after_it(content):
    store = new_store()
    put_topic(store, "t", (1,), (1,))
    member = start_member(store)
    change(store, member, "1")
    bad = Create(f"{CONFIG_CHANGES}/config_change_", content, sequential=True)
    put(store, bad, settings_of_t("2"))
    member.events.settle()
    assert member.node.topics.by_name["t"].overrides == {"retention.ms": "2"}
    with pytest.raises(Contained):  # told by the loop
        member.events.advance(0)
    change(store, member, "3")
    assert member.node.topics.by_name["t"].overrides == {"retention.ms": "3"}


def test_what_is_no_notice_is_left_alone():
    store = new_store()
    put_topic(store, "t", (1,), (1,))
    member = start_member(store)
    put(store, Create(f"{CONFIG_CHANGES}/by hand", b""))
    member.events.settle()
    change(store, member, "3")
    assert member.node.topics.by_name["t"].overrides == {"retention.ms": "3"}
