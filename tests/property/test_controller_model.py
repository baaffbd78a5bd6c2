"""Controllers that die at any moment, in a cluster where everything else happens too.

Brokers die, come back, lose directories and leave in good order; leaders change in-sync sets; people move, elect, create and delete; writes are
done in any order, refused, or their answer is lost; and the controller is replaced by one that knows only what is in the store. `controller_kit`
checks at every step what must always hold. At the end all brokers come back, and everything must be finished: every partition led and whole,
every move done, every deletion too.
"""

from __future__ import annotations

from controller_kit import Host
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from barnabas.core.controller.settings import ControllerSettings
from barnabas.core.controller.view import ElectionType
from barnabas.model.ids import TopicPartition

BROKERS = (1, 2, 3, 4)
PARTITIONS = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
ids = st.sampled_from(PARTITIONS)
brokers = st.sampled_from(BROKERS)
replica_lists = st.lists(brokers, min_size=1, max_size=3, unique=True)
numbers = st.integers(0, 99)
#: How often replicas catch up at the end until all are in sync, and stay so. A move that goes on then needs a few rounds.
ROUNDS_MAX = 50


class Cluster(RuleBasedStateMachine):
    @initialize(unclean=st.booleans())
    def begin(self, unclean):
        self.host = Host(*BROKERS, settings=ControllerSettings(unclean))
        self.host.is_cautious = False
        self.is_unclean = unclean
        self.host.create("a", [1, 2, 3], [2, 3, 4]).run()

    # What goes on in the cluster

    @rule(broker=brokers)
    def kill(self, broker):
        if broker in self.host.live:
            self.host.kill(broker)

    @rule(broker=brokers)
    def start_or_restart(self, broker):
        self.host.start(broker)

    @rule(broker=brokers)
    def leave_in_good_order(self, broker):
        host = self.host
        if broker in host.live:
            epoch = host.live[broker].epoch
            host.do(host.controller.on_shutdown_request(broker, epoch)[1])

    @rule(broker=brokers, id_=ids, is_well=st.booleans())
    def answer_of_directories(self, broker, id_, is_well):
        if broker in self.host.live:
            told = ([], [id_]) if is_well else ([id_], [])
            self.host.do(self.host.controller.on_replica_errors(broker, *told))

    @rule(id_=ids)
    def catch_up(self, id_):
        self.host.catch_up(id_)

    @rule(id_=ids, dropped=brokers)
    def fall_behind(self, id_, dropped):
        if id_ in self.host.states:
            in_sync = self.host.leadership(id_).in_sync
            self.host.change_in_sync(id_, [r for r in in_sync if r != dropped])

    # What people do

    @rule(id_=ids, wanted=st.none() | replica_lists)
    def reassign(self, id_, wanted):
        target = None if wanted is None else tuple(wanted)
        self.host.do(self.host.controller.on_reassign({id_: target})[1])

    @rule(id_=ids, kind=st.sampled_from(ElectionType))
    def elect(self, id_, kind):
        if kind is ElectionType.PREFERRED or self.is_unclean:
            self.host.do(self.host.controller.on_elect(kind, [id_])[1])

    @rule()
    def check_balance(self):
        self.host.do(self.host.controller.on_imbalance_check())

    @rule(name=st.sampled_from("ab"))
    def delete(self, name):
        if name in self.host.topics:
            self.host.delete(name)

    @rule(name=st.sampled_from("ab"), replicas=replica_lists)
    def create(self, name, replicas):
        if name not in self.host.topics:
            self.host.create(name, replicas)

    # How the host fares

    @precondition(lambda self: self.host.writes)
    @rule(number=numbers, fate=st.sampled_from(["done", "done", "done", "lost", "unheard"]))
    def write(self, number, fate):
        self.host.write(number % len(self.host.writes), fate)

    @rule(broker=brokers)
    def deliver(self, broker):
        if self.host.lanes.get(broker):
            self.host.deliver(broker)

    @rule()
    def settle(self):
        self.host.run()

    @rule()
    def controller_dies(self):
        self.host.take_office()

    @rule(broker=brokers)
    def controller_dies_and_a_broker_restarts(self, broker):
        self.host.start_unseen(broker).take_office()

    def teardown(self):
        if not hasattr(self, "host"):
            return
        host = self.host
        host.start(*BROKERS).run()
        for _ in range(ROUNDS_MAX):
            if not any(host.catch_up(id_) for id_ in PARTITIONS):
                break
            host.run()
        else:
            raise AssertionError("who catches up is put out of sync again, for ever")
        assert not host.deletions
        for id_, (stored, version) in host.states.items():
            self.check_is_whole(id_, stored, version)
        assert len(host.states) == sum(len(parts) for _, _, parts in host.topics.values())

    def check_is_whole(self, id_, stored, version):
        assignment = self.host.assignment(id_)
        assert not assignment.is_moving
        assert set(stored.in_sync) == set(assignment.replicas), f"{id_} {stored}"
        for replica in assignment.replicas:
            heard = self.host.brokers[replica].heard[id_]
            assert heard.leadership.leader == stored.leader
            assert heard.leadership.leader_epoch == stored.leader_epoch
            assert heard.assignment == assignment
        assert self.host.brokers[stored.leader].heard[id_].version == version


class CautiousCluster(Cluster):
    """No unclean elections: whoever leads was in sync before."""

    @initialize(unclean=st.just(False))
    def begin(self, unclean):
        super().begin(unclean)
        self.host.is_cautious = True


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=60, stateful_step_count=60)
TestCautiousCluster = CautiousCluster.TestCase
TestCautiousCluster.settings = TestCluster.settings
