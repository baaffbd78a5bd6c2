"""A store that does not know any more what a broker was told."""

from member_kit import make_topic_again, new_store, put_topic, start_member

from barnabas.broker.store_memory import find_forgotten
from barnabas.broker.tasks import drive
from barnabas.model.ids import TopicPartition


def forgotten(member):
    answers = []
    drive(find_forgotten(member.node), lambda *answer: answers.append(answer))
    member.events.settle()
    ((found, problem),) = answers
    assert problem is None
    return found


def test_only_what_the_store_knows_later_things_of_is_remembered():
    store = new_store()
    put_topic(store, "t", (1,), (1,))
    put_topic(store, "u", (1,), (1,))
    member = start_member(store)
    assert forgotten(member) == []
    state = member.node.replicas.get("t", 0).state
    state.partition_epoch += 1
    assert forgotten(member) == [TopicPartition("t", 0)]
    state.partition_epoch -= 2
    assert forgotten(member) == [], "an order is on its way"
    member.node.replicas.get("u", 0).state.leader_epoch += 1
    assert forgotten(member) == [TopicPartition("u", 0)]
    del store.tree["/brokers/topics/u/partitions/0/state"]
    assert forgotten(member) == [], "it was deleted, and so will be the log"


def test_a_topic_that_was_made_again_while_the_broker_was_away_is_another_one():
    """It begins with epoch 0. That looked like a store that was put back: every replica of the broker then refused its orders."""
    store = new_store()
    put_topic(store, "t", (1,), (1,))
    member = start_member(store)
    member.node.replicas.get("t", 0).state.leader_epoch += 5
    assert forgotten(member) == [TopicPartition("t", 0)]
    make_topic_again(store, "t")
    assert forgotten(member) == []
