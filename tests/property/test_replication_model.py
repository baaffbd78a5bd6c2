"""Three replicas, a store and a controller, with every message late, lost or out of order: no committed record is lost.

The store is the truth of who leads and who is in sync; a write to it counts if it met the version it was made for. Its answers
may get lost: then it is read again. The controller elects from those in sync that live. Replicas crash and come back with their logs and an old
high watermark. The invariants are the checkers of the simulator, on the rules alone.
"""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from replication_kit import LAG_MS, Member

ALL = (1, 2, 3)
BROKER = st.sampled_from(ALL)


@dataclass(frozen=True)
class Stored:
    """What the store holds of the partition."""

    leader: int
    leader_epoch: int
    in_sync: tuple
    version: int


class ReplicationMachine(RuleBasedStateMachine):
    @initialize(min_in_sync=st.integers(1, 2), in_sync=st.sampled_from([ALL, (1, 2), (1,)]))
    def create(self, min_in_sync, in_sync):
        self.members = {one: Member(one, min_in_sync) for one in ALL}
        self.live = set(ALL)
        self.now = self.serial = 0
        self.stored = Stored(1, 0, in_sync, 0)
        #: Messages under way: (receiver, what).
        self.orders = []
        self.questions = []
        self.answers = []
        self.in_sync_writes = []
        self.in_sync_replies = []
        self.committed = []
        self.watermarks = {}
        for one in ALL:
            self.obey(one, self.stored)

    def obey(self, broker, order):
        member = self.members[broker]
        if order.leader == broker:
            member.lead(ALL, order.in_sync, order.leader_epoch, order.version, self.now)
        else:
            member.follow(order.leader, ALL, order.in_sync, order.leader_epoch, order.version)

    # The world

    @rule(ms=st.integers(1, LAG_MS))
    def time_passes(self, ms):
        self.now += ms

    @rule(broker=BROKER, forgotten=st.integers(0, 5))
    def crash(self, broker, forgotten):
        self.live.discard(broker)
        member = self.members[broker]
        member.restart(max(0, member.state.high_watermark - forgotten))
        self.watermarks.pop(broker, None)

    @precondition(lambda self: len(self.live) < len(ALL))
    @rule()
    def come_back(self):
        self.orders += [(one, self.stored) for one in ALL if one not in self.live]
        self.live = set(ALL)

    # Producers and followers

    @rule(broker=BROKER, count=st.integers(1, 3))
    def produce(self, broker, count):
        """To whoever thinks that it leads."""
        leaders = [one for one in self.live if self.members[one].state.is_leader]
        for _ in range(count if leaders else 0):
            self.serial += 1
            self.members[leaders[broker % len(leaders)]].write(self.serial)

    @rule(broker=BROKER)
    def ask(self, broker):
        follower = self.members[broker]
        leader = follower.state.leader
        if broker in self.live and leader not in (-1, broker):
            self.questions.append((leader, follower.question()))

    @precondition(lambda self: self.questions)
    @rule(number=st.integers(0, 9), limit=st.integers(1, 4))
    def question_arrives(self, number, limit):
        leader, question = self.questions.pop(number % len(self.questions))
        if leader in self.live:
            answer = self.members[leader].serve(*question, now_ms=self.now, limit=limit)
            if answer is not None:
                self.answers.append((question[0], answer))

    @rule()
    def all_fetch(self):
        for broker in sorted(self.live):
            follower = self.members[broker]
            if follower.state.leader in self.live - {broker}:
                follower.fetch_from(self.members[follower.state.leader], self.now)

    @precondition(lambda self: self.answers)
    @rule(number=st.integers(0, 9))
    def answer_arrives(self, number):
        broker, answer = self.answers.pop(number % len(self.answers))
        if broker in self.live:
            self.members[broker].take(answer)

    # Who is in sync

    @rule()
    def plan_in_sync(self):
        for broker in sorted(self.live):
            state = self.members[broker].state
            planned = state.plan_in_sync(self.now, self.live)
            if planned is not None:
                state.on_in_sync_sent(planned)
                self.in_sync_writes.append((broker, state, planned, state.partition_epoch))

    @precondition(lambda self: self.in_sync_writes)
    @rule(number=st.integers(0, 9), is_lost=st.booleans())
    def in_sync_write_arrives(self, number, is_lost):
        broker, state, planned, version = self.in_sync_writes.pop(number % len(self.in_sync_writes))
        stored = self.stored
        if not is_lost and stored.version == version:
            self.stored = Stored(stored.leader, stored.leader_epoch, planned, version + 1)
        self.in_sync_replies.append((broker, state, planned))

    @precondition(lambda self: self.in_sync_replies)
    @rule(number=st.integers(0, 9))
    def in_sync_reply_arrives(self, number):
        """Whatever it says, the store is read again: what it holds for this leader epoch counts."""
        broker, state, planned = self.in_sync_replies.pop(number % len(self.in_sync_replies))
        stored = self.stored
        is_same = self.members[broker].state is state and stored.leader_epoch == state.leader_epoch
        if broker not in self.live or not is_same:
            return
        if stored.version > state.partition_epoch:
            state.on_in_sync_written(stored.in_sync, stored.version)
        elif state.pending_in_sync == planned:
            state.on_in_sync_unchanged()

    # The controller

    @rule(preferred=BROKER)
    def elect(self, preferred):
        """Take the dead out of the in-sync set, and have one of it lead; if all are dead, nobody does."""
        stored = self.stored
        in_sync = tuple(one for one in stored.in_sync if one in self.live)
        leader = preferred if preferred in in_sync else next(iter(in_sync), -1)
        self.stored = Stored(
            leader, stored.leader_epoch + 1, in_sync or stored.in_sync, stored.version + 1
        )
        self.orders += [(one, self.stored) for one in ALL]

    @precondition(lambda self: self.orders)
    @rule(number=st.integers(0, 20))
    def order_arrives(self, number):
        broker, order = self.orders.pop(number % len(self.orders))
        if broker in self.live:
            self.obey(broker, order)

    @precondition(lambda self: self.orders)
    @rule()
    def all_orders_arrive(self):
        while self.orders:
            self.order_arrives(0)

    # What must hold

    @invariant()
    def replicas_agree_below_the_high_watermark(self):
        for member in getattr(self, "members", {}).values():
            high_watermark = member.state.high_watermark
            assert high_watermark <= member.end
            self.committed += member.records[len(self.committed) : high_watermark]
            assert member.records[:high_watermark] == self.committed[:high_watermark]

    @invariant()
    def the_leader_has_all_that_is_committed(self):
        stored = getattr(self, "stored", None)
        if stored is not None and stored.leader != -1:
            records = self.members[stored.leader].records
            assert records[: len(self.committed)] == self.committed

    @invariant()
    def everybody_in_sync_has_all_that_is_committed(self):
        """Who may be elected next has it, too."""
        stored = getattr(self, "stored", None)
        for one in stored.in_sync if stored is not None else ():
            assert self.members[one].records[: len(self.committed)] == self.committed

    @invariant()
    def the_high_watermark_never_falls_within_an_epoch(self):
        for broker, member in getattr(self, "members", {}).items():
            state = member.state
            epoch, high_watermark = self.watermarks.get(broker, (-1, 0))
            if state.leader_epoch == epoch:
                assert state.high_watermark >= high_watermark
            self.watermarks[broker] = (state.leader_epoch, state.high_watermark)

    def teardown(self):
        """Heal everything: all come back, are told, and fetch; then all logs are one, and all of it is committed."""
        if not hasattr(self, "members"):
            return
        self.live = set(ALL)
        self.elect(1)
        for one in ALL:
            self.obey(one, self.stored)
        leader = self.members[self.stored.leader]
        for _ in range(8):
            for member in self.members.values():
                if member is not leader:
                    member.fetch_from(leader, self.now)
            planned = leader.state.plan_in_sync(self.now, self.live)
            if planned is not None:
                leader.state.on_in_sync_sent(planned)
                leader.state.on_in_sync_written(planned, leader.state.partition_epoch + 1)
        assert leader.records[: len(self.committed)] == self.committed
        for member in self.members.values():
            assert member.records == leader.records
            assert member.state.high_watermark == leader.end
        assert sorted(leader.state.in_sync) == list(ALL)


TestReplication = ReplicationMachine.TestCase
TestReplication.settings = settings(max_examples=50, stateful_step_count=70)
