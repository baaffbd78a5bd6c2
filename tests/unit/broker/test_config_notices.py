"""Notices of changed settings: taken by every broker, and away once all have had the time."""

from member_kit import new_store, put, put_topic, start_member

from barnabas.broker import cluster_znodes, znodes
from barnabas.broker.cluster_znodes import CONFIG_CHANGE_KEPT_MS, CONFIG_CHANGES


def notices(store):
    return [path for path in store.tree if path.startswith(CONFIG_CHANGES + "/")]


def change(store, member, retention_ms):
    operations = znodes.topic_config_operations("t", {"retention.ms": retention_ms})
    put(store, *operations, cluster_znodes.config_notice("topics/t"))
    member.events.settle()


def test_a_notice_is_kept_for_others_and_goes_with_a_later_one():
    store = new_store()
    put_topic(store, "t", (1,), (1,))
    member = start_member(store)
    for elapsed_ms, kept in ((0, 1), (CONFIG_CHANGE_KEPT_MS - 1, 2), (1, 2), (CONFIG_CHANGE_KEPT_MS, 1)):  # fmt: skip
        member.events.advance(elapsed_ms)
        change(store, member, str(5000 + elapsed_ms))
        assert member.node.topics.by_name["t"].overrides == {"retention.ms": str(5000 + elapsed_ms)}
        assert len(notices(store)) == kept, elapsed_ms
