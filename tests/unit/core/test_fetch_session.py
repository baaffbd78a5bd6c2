"""Fetch sessions: epochs, news, rotation, and the bound on the cache."""

from itertools import count

from barnabas.core.fetch_session import EVICTION_MS, FetchSession, FetchSessions, Wanted
from barnabas.model.errors import ErrorCode


def sessions(slots=2):
    return FetchSessions(slots, count(1).__next__)


def test_epochs_count_up_and_must_match():
    cache = sessions()
    session = cache.open(0, 0)
    assert cache.resume(session.id, 1, 0) is session
    assert cache.resume(session.id, 2, 0) is session
    assert cache.resume(session.id, 2, 0) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert cache.resume(99, 1, 0) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_epochs_wrap_to_one():
    cache = sessions()
    session = cache.open(0, 0)
    session.epoch = 0x7FFFFFFF
    assert cache.resume(session.id, 0x7FFFFFFF, 0) is session
    assert session.epoch == 1


def test_a_full_cache_gives_no_session_until_one_is_idle():
    cache = sessions(2)
    first, second = cache.open(0, 0), cache.open(0, 0)
    assert cache.open(0, EVICTION_MS - 1) is None
    cache.resume(first.id, 1, EVICTION_MS - 1)
    third = cache.open(0, EVICTION_MS)
    assert third is not None
    assert len(cache) == 2
    assert cache.resume(second.id, 1, EVICTION_MS) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.resume(first.id, 2, EVICTION_MS) is first


def test_a_cache_without_slots_never_gives_one():
    assert sessions(0).open(0, 10 * EVICTION_MS) is None


def test_a_new_session_replaces_the_one_named():
    cache = sessions(1)
    old = cache.open(0, 0)
    new = cache.open(old.id, 0)
    assert new is not None
    assert len(cache) == 1


def test_a_closed_session_is_gone():
    cache = sessions()
    session = cache.open(0, 0)
    cache.close(session.id)
    cache.close(session.id)
    assert len(cache) == 0


def test_ids_in_use_are_not_given_again():
    ids = iter([5, 5, 6])
    cache = FetchSessions(5, ids.__next__)
    assert [cache.open(0, 0).id, cache.open(0, 0).id] == [5, 6]


def test_news_are_bytes_errors_and_moved_offsets():
    wanted = Wanted("k", "t", b"", 0)
    assert wanted.has_news(0, 0, 7, 0)
    assert not wanted.has_news(0, 0, 7, 0)
    assert wanted.has_news(10, 0, 7, 0)
    assert wanted.has_news(0, 0, 8, 0)
    assert wanted.has_news(0, 0, 8, 1)
    assert wanted.has_news(0, 3, -1, -1)
    assert wanted.has_news(0, 3, -1, -1)
    assert wanted.has_news(0, 0, 8, 1), "after an error everything is told again"


def test_served_partitions_go_to_the_end():
    session = FetchSession(1, 0)
    session.partitions = {key: Wanted(key, "t", b"", 0) for key in "abc"}
    session.rotate(["a"])
    assert list(session.partitions) == ["b", "c", "a"]


def test_a_session_is_of_names_or_of_ids_and_stays_so():
    cache = sessions()
    by_name, by_id = cache.open(0, 0), cache.open(0, 0, by_id=True)
    for session, other in ((by_name, True), (by_id, False)):
        wrong = cache.resume(session.id, 1, 0, by_id=other)
        assert wrong == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        assert cache.resume(session.id, 2, 0, by_id=other) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert cache.resume(session.id, 1, 0, by_id=not other) is session, "it has not moved on"
