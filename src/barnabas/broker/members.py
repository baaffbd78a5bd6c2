"""A broker as a member of a cluster: it registers, hears who else is there, and leaves in order.

Job: hold the parts that only a member has, and keep the registration alive: after the session with ZooKeeper expired it
registers again, as another one. Must not know: who leads what, how the session is kept.

| session      | what it means here                                                                           |
|--------------|----------------------------------------------------------------------------------------------|
| connected    | registers, if the session is new                                                             |
| suspended    | goes on serving what it leads: nobody else leads it before the session has expired           |
| expired      | gives up the controller's office, and serves nothing that it led, as others may lead it now: it is told what it leads once it is registered again |
| in doubt     | the process stood still, so the session may have expired without a word: serves nothing that it leads until the store has said whether |
| gone back    | ZooKeeper was put back to an older state: goes on serving, and orders must be of later epochs than those known here |

It registers again only where the store is still that of its cluster; in another one it stops.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker import cluster_znodes, znodes
from barnabas.broker.channel import Channel, Unreachable
from barnabas.broker.cluster_topics import ClusterTopics
from barnabas.broker.config_notices import ConfigNotices
from barnabas.broker.controller_seat import ControllerSeat
from barnabas.broker.edge import call_all, report
from barnabas.broker.follower import Fetchers
from barnabas.broker.follower_news import Followers
from barnabas.broker.forwarding import Forwarding
from barnabas.broker.in_sync import InSyncKeeper
from barnabas.broker.lost_logs import LostLogs
from barnabas.broker.orders import NOT_REGISTERED, Orders
from barnabas.broker.replication_throttle import FOLLOWER, LEADER, ReplicationThrottle
from barnabas.broker.store_memory import find_forgotten
from barnabas.broker.tasks import drive
from barnabas.model.cluster import LiveBroker
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports import Check, CoordinationError
from barnabas.wire.messages.controlled_shutdown import ControlledShutdownRequest

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.wire.primitives import Message

log = logging.getLogger(__name__)

CONTROLLED_SHUTDOWN_VERSION: Final = 3
_RETRY_MS: Final = 200
#: How long to wait after a fault of ours.
_FAULT_PAUSE_MS: Final = 1_000


class IdTaken(OSError):
    """Another broker with this id is registered and lives."""


class OtherCluster(OSError):
    """The store is not, or not any more, that of the cluster whose data this broker has."""


class AddressTaken(OSError):
    """Another broker is registered with an address of this one."""


class Members:
    """See the module."""

    def __init__(self, node: Node) -> None:
        """Be nobody yet."""
        self._node = node
        self.session_id = 0
        #: That of the present registration.
        self.broker_epoch = NOT_REGISTERED
        self.is_registered = False
        self._is_connected = False
        self._suspended_ms = 0
        self.orders = Orders(node)
        self.fetchers = Fetchers(node)
        #: Who pulls from this broker.
        self.followers = Followers(node.replicas.waiting.changes)
        self.in_sync = InSyncKeeper(node)
        self.leader_throttle = ReplicationThrottle(node, LEADER)
        self.follower_throttle = ReplicationThrottle(node, FOLLOWER)
        self.controller = ControllerSeat(node)
        self.forwarding = Forwarding(node)
        self.topics = ClusterTopics(node)
        self.config_notices = ConfigNotices(node)
        self._lost_logs = LostLogs(node)
        node.replicas.on_lost = self.on_lost
        self._self: LiveBroker | None = None
        self._protocols: dict[str, str] = {}
        self._is_registering = False
        self._is_in_doubt = False
        self._controller_channel: Channel | None = None

    @property
    def is_in_touch(self) -> bool:
        """Tell whether the store knows of this broker, as far as can be said: else others cannot change anything that it should do."""
        return self._is_connected and self.is_registered

    @property
    def may_be_ordered(self) -> bool:
        """Tell whether orders are accepted: only while this broker is registered and its registration is not in doubt. At other times
        an order for the previous registration would look like one for the present one.
        """
        return self.is_registered and self.broker_epoch != NOT_REGISTERED and not self._is_in_doubt

    # Addresses

    def inter_broker_endpoint(self, broker: LiveBroker) -> tuple[str, int] | None:
        """Where other brokers reach one."""
        return broker.endpoints.get(self._node.config.inter_broker_listener)

    def endpoint_of(self, broker_id: int) -> tuple[str, int] | None:
        """Where another broker is reached from here; None if it is not there."""
        broker = self._node.cluster.brokers.get(broker_id)
        return None if broker is None else self.inter_broker_endpoint(broker)

    def on_lost(self, lost: list[Replica]) -> None:
        """Hear that logs were lost with their disk: pull them no more, and let others lead them."""
        for replica in lost:
            self.fetchers.leave(replica.key)
        self._lost_logs.tell()

    def ask_for_orders(self) -> None:
        """Let the controller give its orders again: some could not be carried out, and may be now."""
        self._lost_logs.tell()

    # Joining

    def join(self, endpoints: dict[str, tuple[str, int]]) -> Task[None]:
        """Become a member: clients and brokers can connect. KafkaError or OSError if that cannot be."""
        node = self._node
        self._self = LiveBroker(node.broker_id, rack=node.rack, endpoints=endpoints)
        self._protocols = {each.name: each.protocol for each in node.config.listeners}
        node.world.coordination.on_session(self)
        yield from self._until_addresses_free(self._self)
        yield from self._register()
        self.in_sync.start()
        self.config_notices.start()
        if node.acl_store is not None:
            node.acl_store.follow()
        self.controller.start()

    def on_connected(self, session_id: int, *, is_new: bool) -> None:
        """Hear of a session."""
        self.session_id = session_id
        self._is_connected = True
        silent_ms = self._node.world.clock.monotonic_ms() - self._suspended_ms
        if is_new and self.broker_epoch >= 0 and not self._is_registering:
            self.is_registered = False
            drive(self._register_again(), self._on_registered_again)
        elif not is_new and silent_ms >= self._session_ms:
            drive(self._compare(), self._on_compared)
        else:
            self.controller.look()

    def on_suspended(self) -> None:
        """Hear that the store cannot be reached."""
        self._is_connected = False
        self._suspended_ms = self._node.world.clock.monotonic_ms()
        served = (
            "until it is back nothing is served"
            if self._is_in_doubt
            else "what this broker leads, it serves"
        )
        log.warning("the connection to ZooKeeper is lost; %s", served)

    def on_expired(self) -> None:
        """Hear that the session is over: others may lead what this broker leads."""
        log.error("the session with ZooKeeper has expired")
        self.is_registered = False
        leave = partial(self.controller.leave, "the session has expired")
        call_all([leave, self.orders.lay_down])

    @property
    def standstill_ms(self) -> int:
        """How long the process may stand still before its session is in doubt. The store ends a session after a whole time-out without
        a heartbeat, and the last heartbeat may be a third of that old.
        """
        return self._session_ms // 2

    def on_stood_still(self) -> None:
        """Hear that the process stood still for so long that the session may be over: others may lead what this broker leads.

        A broker that was cut off from the store before goes on: it is in no other doubt than it was.
        """
        if not self.is_in_touch or self._is_in_doubt:
            return
        log.warning("this broker stood still for so long that its session may be over")
        self._is_in_doubt = True
        try:
            self.orders.lay_down()
        finally:
            drive(self._end_doubt(self.broker_epoch), self._on_doubt_ended)

    def _end_doubt(self, epoch: int) -> Task[None]:
        """Ask whether this registration still stands. The commit comes first, because the server that answers the read may lag behind."""
        node, path = self._node, cluster_znodes.broker_path(self._node.broker_id)
        coordination = node.world.coordination
        while self.is_registered and self.broker_epoch == epoch and not node.stopping:
            try:
                yield partial(coordination.commit, [Check(path)])
                found = yield partial(coordination.read, path)
            except CoordinationError:
                return  # it is gone, and that will be told
            except OSError:
                yield partial(node.pause, _RETRY_MS)
                continue
            if self.is_registered and self.broker_epoch == epoch and found is not None:
                if found.owner == self.session_id:
                    self.orders.take_up()
                return

    def _on_doubt_ended(self, _result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
        self._is_in_doubt = False
        if problem is not None:
            log.error("cannot find out whether the session is over", exc_info=problem)

    def on_gone_back(self) -> None:
        """Hear that the store has forgotten what was seen there."""
        self.orders.on_gone_back()

    def _register_again(self) -> Task[None]:
        """Register where nothing else can be done: what is left of a registration before is waited for."""
        self._is_registering = True
        try:
            yield from self._check_cluster()
            yield from self._compare()
        finally:
            self._is_registering = False
        while not self.is_registered and not self._node.stopping:
            try:
                yield from self._register()
            except IdTaken as problem:
                log.error("cannot register again: %s", problem)

    def _compare(self) -> Task[None]:
        """See whether the store still knows what was heard of it before it was away."""
        node = self._node
        while not node.stopping:
            try:
                forgotten = yield from find_forgotten(node)
            except OSError:
                yield partial(node.pause, _RETRY_MS)
                continue
            if forgotten:
                log.error(
                    "ZooKeeper was put back to an older state: of %d partitions later leaders are known here, such as %s",
                    len(forgotten), forgotten[0],
                )  # fmt: skip
                self.controller.leave("ZooKeeper was put back")
                self.orders.on_gone_back()
                self.orders.take_up()
            return

    def _on_compared(self, _result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
        if problem is not None:
            log.error("cannot compare with the store", exc_info=problem)
        self.controller.look()

    def _check_cluster(self) -> Task[None]:
        """Make sure that the store is still that of this cluster. OtherCluster if it is not."""
        node = self._node
        while not node.stopping:
            try:
                found = yield partial(node.world.coordination.read, znodes.CLUSTER_ID)
            except OSError:
                yield partial(node.pause, _RETRY_MS)
                continue
            there = None if found is None else znodes.read_cluster_id({znodes.CLUSTER_ID: found})
            if there != node.cluster_id:
                what = f"of the cluster {there}" if there else "empty"
                raise OtherCluster(
                    f"ZooKeeper is now {what}, and this broker has data of the cluster {node.cluster_id}:"
                    " put ZooKeeper's data back, or look at zookeeper.connect"
                )
            return

    def _on_registered_again(self, _result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
        if problem is None:
            self.controller.look()
        elif isinstance(problem, OtherCluster):
            log.critical("%s", problem)
            self._node.on_doomed(problem)
        elif isinstance(problem, Exception) and not self._node.stopping:
            node = self._node
            report(node.world, "registering again", problem)
            node.world.timers.call_at(
                node.world.clock.monotonic_ms() + _FAULT_PAUSE_MS, self._register_after_fault
            )

    def _register_after_fault(self) -> None:
        """Register again after a fault, unless a later session does that already."""
        if not self.is_registered and not self._is_registering and not self._node.stopping:
            drive(self._register_again(), self._on_registered_again)

    def _until_addresses_free(self, us: LiveBroker) -> Task[None]:
        """Wait while another broker has an address of ours: one that died is soon forgotten, one that lives is meant by mistake."""
        node, clock = self._node, self._node.world.clock
        give_up_ms = self._give_up_ms()
        ours = set(us.endpoints.values())
        while not node.stopping:
            try:
                read = partial(node.world.coordination.read_tree, cluster_znodes.BROKER_IDS)
                others = cluster_znodes.read_brokers((yield read))
            except OSError:
                yield partial(node.pause, _RETRY_MS)
                continue
            others.pop(us.id, None)
            taken = [(o.id, at) for o in others.values() for at in ours & set(o.endpoints.values())]
            if not taken:
                return
            if clock.monotonic_ms() >= give_up_ms:
                broker_id, (host, port) = taken[0]
                raise AddressTaken(
                    f"broker {broker_id} of this cluster says that it is at {host}:{port}, as this one does:"
                    " give each its own advertised.listeners"
                )
            yield partial(node.pause, _RETRY_MS)

    def until_id_free(self) -> Task[None]:
        """Wait while a broker of this id is registered: one that died is soon forgotten. IdTaken if it lives."""
        node, path = self._node, cluster_znodes.broker_path(self._node.broker_id)
        give_up_ms = self._give_up_ms()
        while (yield partial(node.world.coordination.read, path)) is not None:
            self._check_patience(give_up_ms)
            yield partial(node.pause, _RETRY_MS)

    def _check_patience(self, give_up_ms: int) -> None:
        if self._node.world.clock.monotonic_ms() >= give_up_ms:
            raise IdTaken(
                f"another broker with the id {self._node.broker_id} is in this cluster:"
                " give this one another node.id"
            )

    def _give_up_ms(self) -> int:
        """When one that is left from before has vanished with its session."""
        return self._node.world.clock.monotonic_ms() + self._session_ms * 3 // 2

    @property
    def _session_ms(self) -> int:
        return self._node.config.get_int("zookeeper.session.timeout.ms")

    def _register(self) -> Task[None]:
        """Register; one of this id that is left from before vanishes with its session, another that lives does not."""
        node, path = self._node, cluster_znodes.broker_path(self._node.broker_id)
        coordination, clock = node.world.coordination, node.world.clock
        give_up_ms = self._give_up_ms()
        self._is_registering = True
        try:
            assert self._self is not None
            while not node.stopping:
                operation = cluster_znodes.register_operation(
                    self._self, self._protocols, clock.now_ms()
                )
                try:
                    yield partial(coordination.commit, [operation])
                except CoordinationError:
                    pass
                except OSError as problem:
                    log.warning("cannot register: %s", problem)
                found = None
                try:
                    found = yield partial(coordination.read, path)
                except OSError:
                    yield partial(node.pause, _RETRY_MS)
                    continue
                if found is not None and found.owner == self.session_id:
                    self.broker_epoch = found.created
                    self.is_registered = True
                    log.info("registered as broker %d, epoch %d", node.broker_id, found.created)
                    return
                if found is not None:
                    self._check_patience(give_up_ms)
                yield partial(node.pause, _RETRY_MS)
        finally:
            self._is_registering = False

    # Leaving

    def leave(self) -> Task[None]:
        """Let the controller move what this broker leads, as far as it answers, then stop pulling."""
        node = self._node
        if node.config.get_bool("controlled.shutdown.enable") and self.is_registered:
            yield from self._ask_to_go()
        self.controller.stop()
        self.forwarding.close()
        self.config_notices.stop()
        if node.acl_store is not None:
            node.acl_store.stop()
        self.fetchers.close()
        if self._controller_channel is not None:
            self._controller_channel.close()

    def _ask_to_go(self) -> Task[None]:
        node, config = self._node, self._node.config
        request = ControlledShutdownRequest(
            broker_id=node.broker_id, broker_epoch=self.broker_epoch
        )
        for attempt in range(config.get_int("controlled.shutdown.max.retries") + 1):
            if attempt:
                yield partial(node.pause, config.get_int("controlled.shutdown.retry.backoff.ms"))
            try:
                response = yield from self.ask_controller(request, CONTROLLED_SHUTDOWN_VERSION)
            except KafkaError as problem:
                log.warning("the controller cannot be asked to take over: %s", problem.message)
                continue
            code, left = ErrorCode(response.error_code), len(response.remaining_partitions)
            if not code and not left:
                log.info("the controller has moved what this broker led")
                return
            if node.cluster.live_ids() == [node.broker_id]:
                log.info("the last broker stops: nobody is left to take over %d partitions", left)
                return
            log.warning("asked to take over, the controller answers %s, %d left", code.name, left)

    def ask_controller(self, request: Message, version: int) -> Task[Any]:
        """Ask whoever is controller; KafkaError if nobody answers."""
        broker_id = self._node.cluster.controller_id
        channel = self._controller_channel
        if channel is None or channel.broker_id != broker_id:
            if channel is not None:
                channel.close()
            channel = self._controller_channel = Channel(
                self._node.world, broker_id, partial(self.endpoint_of, broker_id),
                f"broker-{self._node.broker_id}",
                self._node.config.get_int("controller.socket.timeout.ms"),
            )  # fmt: skip
        try:
            return (yield channel.asking(request, version))
        except Unreachable as problem:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, str(problem)) from None
