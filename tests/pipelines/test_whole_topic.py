from topic_kit import delete_records, make_topic, produce, produce_in_transaction

from barnabas.pipelines.whole_topic import read_topic


def test_all_of_a_topic_and_then_what_came_since(bootstrap, topic):
    make_topic(bootstrap, topic, 2)
    positions = {}
    assert list(read_topic(bootstrap, topic, positions)) == []
    produce(bootstrap, topic, [{"key": "a", "value": "1", "headers": {"h": b"x"}}, {"key": "b"}])
    produce_in_transaction(bootstrap, topic, ["no"], commit=False, partition=1)
    produce_in_transaction(bootstrap, topic, ["yes"], commit=True, partition=1)
    found = list(read_topic(bootstrap, topic, positions))
    assert [(each.key, each.value, each.headers, each.partition) for each in found] == [
        (b"a", b"1", [("h", b"x")], 0),
        (b"b", None, [], 0),
        (None, b"yes", [], 1),
    ]
    assert list(read_topic(bootstrap, topic, positions)) == []
    produce(bootstrap, topic, ["2", "3"])
    assert [each.value for each in read_topic(bootstrap, topic, positions)] == [b"2", b"3"]


def test_a_start_that_is_gone_is_the_first_that_is_there(bootstrap, topic):
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, ["1", "2", "3"])
    delete_records(bootstrap, topic, 0, 2)
    assert [(each.value, each.offset) for each in read_topic(bootstrap, topic)] == [(b"3", 2)]
