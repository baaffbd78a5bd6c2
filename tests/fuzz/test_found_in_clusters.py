"""What the fuzzer found in the only member of a cluster: each failed once."""

from fuzz import ClusterFuzzer, good_request
from fuzz_world import FuzzLink

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)


class Member(ClusterFuzzer):
    """The member, asked what a test wants."""

    def ask(self, request, version):
        return self._ask(request, version)

    def waited_ms(self, request, version):
        """Ask something that is not answered before its time is over, and tell how long that took."""
        node, events = self.fuzz_node.node, self.fuzz_node.events
        link, started_ms = FuzzLink(), node.world.clock.monotonic_ms()
        assert self._on_request(link, good_request(request, version, 1)) is None
        while not link.answers:
            events.settle()
            events.advance(100)
        return node.world.clock.monotonic_ms() - started_ms

    def tell_of_later_controller(self):
        """Give it an order in an epoch that no controller has had."""
        told = UpdateMetadataRequest(
            controller_id=2,
            controller_epoch=2**31 - 1,
            broker_epoch=-1,
            live_brokers=[UpdateMetadataBroker(id_=1)],
        )
        assert self.ask(told, 8).error_code == 0


def test_a_partition_that_an_order_names_twice():
    member = Member(0)
    state = LeaderAndIsrPartitionState(partition_index=7, leader=1, isr=[1], replicas=[1])
    topic = LeaderAndIsrTopicState(
        topic_name="new", topic_id=b"x" * 16, partition_states=[state, state]
    )
    order = LeaderAndIsrRequest(controller_id=1, controller_epoch=1, topic_states=[topic])
    assert member.ask(order, 7).error_code == ErrorCode.INVALID_REQUEST


def test_topics_that_share_an_id():
    member = Member(0)
    for name in ("one", "two", "one"):
        states = [UpdateMetadataPartitionState(leader=1, replicas=[1])]
        topics = [
            UpdateMetadataTopicState(topic_name=name, topic_id=b"x" * 16, partition_states=states)
        ]
        order = UpdateMetadataRequest(
            controller_id=1, controller_epoch=1, broker_epoch=-1, topic_states=topics
        )
        assert member.ask(order, 8).error_code == 0


def test_more_partitions_than_one_request_may_add():
    member = Member(0)
    asked = [CreatePartitionsTopic(name="one", count=2**31 - 1, assignments=None)]
    [result] = member.ask(CreatePartitionsRequest(topics=asked), 3).results
    assert result.error_code == ErrorCode.POLICY_VIOLATION


def test_a_request_has_one_deadline_however_many_topics_it_names():
    member = Member(0)
    member.tell_of_later_controller()  # nothing is carried out any more
    names = ["one", "two", "three", "four"]
    more = [CreatePartitionsTopic(name=name, count=3, assignments=None) for name in names]
    assert 1000 <= member.waited_ms(CreatePartitionsRequest(topics=more, timeout_ms=1000), 3) < 1500
    gone = DeleteTopicsRequest(topic_names=names, timeout_ms=1000)
    assert 1000 <= member.waited_ms(gone, 5) < 1500


def test_a_controller_whose_orders_are_refused_for_ever_stays_it_and_takes_its_time():
    member = Member(0)
    member.tell_of_later_controller()
    seat = member.fuzz_node.node.members.controller
    # At first it takes the store for one that was put back, and raises its epoch, a few times.
    wanted = CreatableTopic(name="first", num_partitions=1, replication_factor=1)
    member.waited_ms(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 7)
    office, epoch = seat.office, seat.office.epoch
    assert epoch > 1
    wanted = CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    # Ends, though the order is tried again for as long as the broker lives.
    member.waited_ms(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 7)
    assert seat.office is office
    assert office.epoch == epoch
