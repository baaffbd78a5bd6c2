from bench.admin import PARTITIONS_PER_REQUEST, TOPICS_PER_REQUEST, chunks


def test_topics_are_made_in_requests_that_a_broker_takes():
    assert chunks({"a": 1, "b": 1}) == [["a", "b"]]
    many = {str(number): 1 for number in range(TOPICS_PER_REQUEST + 1)}
    assert [len(names) for names in chunks(many)] == [TOPICS_PER_REQUEST, 1]
    large = dict.fromkeys("abc", PARTITIONS_PER_REQUEST - 1)
    assert chunks(large) == [["a"], ["b"], ["c"]]
    assert chunks({"a": PARTITIONS_PER_REQUEST * 9, "b": 1}) == [["a"], ["b"]]
