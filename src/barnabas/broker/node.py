"""One broker: owns the parts and routes what happens to them.

Every entry point (`on_request`, `on_disconnect`, `on_turn_end`, timers, answers from outside) runs to its end on
the one thread of decision and never waits. What needs an answer from outside is a task (`tasks.py`).
The real server and the simulator drive the same object.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker import dispatch, pieces, shutdown, startup
from barnabas.broker.acl_store import AclStore
from barnabas.broker.authentication import Authentication
from barnabas.broker.batch_check import OPENED_AT_ONCE
from barnabas.broker.call import Call, owned
from barnabas.broker.cluster_view import ClusterView
from barnabas.broker.coordinators import Coordinators
from barnabas.broker.directory_jobs import DirectoryJobs
from barnabas.broker.edge import call_all, report
from barnabas.broker.fair_turns import FairTurns
from barnabas.broker.log_claims import LogClaims
from barnabas.broker.log_moves import LogMoves
from barnabas.broker.metrics import Metrics
from barnabas.broker.outcomes import NO_REPLY, CloseLink
from barnabas.broker.owed_reply import OwedReply
from barnabas.broker.placement import Placement
from barnabas.broker.producer_ids import ProducerIds
from barnabas.broker.quiet import Quiet, place_of
from barnabas.broker.quotas import Quotas
from barnabas.broker.repairs import Repairs
from barnabas.broker.repeats import Staging
from barnabas.broker.replicas import Replicas
from barnabas.broker.tasks import drive
from barnabas.broker.transactions import Transactions
from barnabas.broker.turns import Turns
from barnabas.broker.upkeep import Upkeep
from barnabas.broker.users import Users
from barnabas.broker.znodes import ALL_BROKERS
from barnabas.core.fetch_session import FetchSessions
from barnabas.model.cluster import Topics
from barnabas.model.config.broker_config import resolve_topic
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.compression import Unpacker
from barnabas.wire.frame import (
    API_VERSIONS,
    RequestHead,
    decode_request_header,
    finish,
    response_header,
)
from barnabas.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.broker.controller import Office
    from barnabas.broker.dispatch import Api
    from barnabas.broker.gate import Gate
    from barnabas.broker.members import Members
    from barnabas.broker.quotas import Bill
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Done, Task
    from barnabas.core.waiting import Waiter
    from barnabas.model.config.broker_config import BrokerConfig
    from barnabas.model.config.log_config import LogConfig
    from barnabas.ports import Link, World
    from barnabas.storage.directory import LogDirectory

log = logging.getLogger(__name__)

#: A request of more bytes is decoded in the background: it may be made of a hundred thousand small things.
DECODED_AT_ONCE: Final = 128 * 1024


class Node:
    """A broker that hosts replicas and answers requests."""

    def __init__(self, config: BrokerConfig, world: World) -> None:  # noqa: PLR0915  (one line for each part)
        """Build the parts; `start` must run before requests come."""
        self.config = config
        self.world = world
        self.broker_id: int = config.node_id
        rack = config.get("broker.rack")
        self.rack: str | None = None if rack is None else str(rack)
        self.cluster_id = ""
        #: It has a store of its own, and no other brokers.
        self.is_lone = config.get("zookeeper.connect") is None
        self.topics = Topics()
        self.cluster = ClusterView(self)
        self._members: Members | None = None
        self.metrics = Metrics()
        #: Produce requests of this turn that are written together.
        self.staging = Staging(
            world.clock,
            self.metrics,
            config.get_int("socket.request.max.bytes"),
            partial(report, world),
        )
        #: Who works on the files of a log.
        self.claims = LogClaims(self.pause)
        self.repairs = Repairs(self)
        self.replicas = Replicas(
            world, self.metrics, self.staging, self.repairs.request, self.log_config
        )
        #: How clients log in, and who can by SCRAM.
        self.authentication = Authentication(self)
        self.users = Users(self)
        #: How much clients may do.
        self.quotas = Quotas(self)
        #: The access rules, and who asks them; None lets everybody do everything.
        self.acl_store = AclStore(self) if config.get("authorizer.class.name") else None
        self.gate: Gate | None = None if self.acl_store is None else self.acl_store.gate
        self.directories: list[LogDirectory] = []
        #: Which directory holds a partition's folder.
        self.placement = Placement()
        #: What touches the directories as such goes through here: opening, renaming, checkpoints.
        self.directory_jobs = DirectoryJobs(world.background)
        self.moves = LogMoves(self)
        #: Who may change topics and settings that exist: one task at a time.
        self.changes = Turns()
        #: Opens compressed batches on this thread.
        self.unpacker = Unpacker()
        #: Whose batch is being opened in the background: large ones, a few at a time.
        self.unpacking = FairTurns(OPENED_AT_ONCE)
        self.producer_ids = ProducerIds(self)
        self.coordinators = Coordinators(self)
        self.transactions = Transactions(self)
        self.fetch_sessions = FetchSessions(
            config.get_int("max.incremental.fetch.session.cache.slots"), self._random_session_id
        )
        #: Where listeners without an advertised address are reached: name -> (host, port).
        self.advertised: dict[str, tuple[str, int]] = {}
        #: The request that a link waits for, if it waits for bytes: to forget it when the link goes.
        self.waiters: dict[Link, Waiter[Any]] = {}
        #: Replies that are still owed although no object holds the request any more.
        self._dropped: deque[OwedReply] = deque()
        #: Replies that were given twice, and requests whose reply was lost on the way: both are faults.
        self.replies_amiss = 0
        #: Long work that gives others a turn in between.
        self.pauses = pieces.Pauses(world)
        #: Topics between the decision to create them and their first replica: folded name -> name.
        self.creating: dict[str, str] = {}
        self.fetch_bytes_max = config.get_int("fetch.max.bytes")
        self.stopping = False
        #: Is told why this broker cannot go on: the process is to stop.
        self.on_doomed: Callable[[Exception], None] = _raise
        self.upkeep = Upkeep(self)
        self._apis: Mapping[int, Api] = dispatch.TABLE
        #: Which faults of ours were told.
        self._quiet = Quiet()
        if not self.is_lone:
            # Imported here: a lone broker does without.
            from barnabas.broker.members import Members

            self._members = Members(self)
            self._apis = {**dispatch.TABLE, **dispatch.cluster_table()}
        #: Which APIs are served: key, lowest, highest version.
        self.served_versions = dispatch.advertised(self._apis)

    def start(self) -> Task[None]:
        """Read the store and open the logs; then the node takes requests."""
        yield from self.authentication.start()
        yield from startup.start(self)
        self.coordinators.start()
        self.transactions.start()
        self.upkeep.start()

    def join(self, endpoints: dict[str, tuple[str, int]]) -> Task[None]:
        """Become a member of the cluster, once others can connect to these addresses; a lone broker has nothing to join."""
        if not self.is_lone:
            yield from self.members.join(endpoints)

    @property
    def members(self) -> Members:
        """What only a member of a cluster has."""
        assert self._members is not None, "a lone broker"
        return self._members

    def leave(self) -> Task[None]:
        """Hand over what this broker leads: before it stops to answer."""
        if not self.is_lone:
            yield from self.members.leave()

    def release_waiting(self) -> None:
        """Begin to stop: answer what waits with what there is."""
        self.upkeep.stop()
        shutdown.release_waiting(self)

    def stop(self) -> Task[None]:
        """Flush, close and mark the stop as clean; every request has been answered."""
        yield from shutdown.stop(self)

    def on_request(self, link: Link, frame: memoryview) -> list[Any] | None:
        """Handle one request; the reply's parts, or None if `link.reply` will bring it later.

        WireError (bytes that are no request this node serves) or CloseLink: the link is to be closed. The view is released, and
        its memory the caller's again when this returns, unless the link says that the request owns it.
        """
        try:
            return self._on_request(link, frame)
        finally:
            frame.release()  # from here on a handler that waits cannot read what it did not make its own

    def _on_request(self, link: Link, frame: memoryview) -> list[Any] | None:
        authenticator = link.authenticator
        if authenticator is not None and authenticator.is_bare:
            bare: list[Any] | None = authenticator.take_bare(frame)
            return bare
        head = decode_request_header(frame)
        if authenticator is not None:
            authenticator.check(head)
        api = self._apis.get(head.api_key)
        if api is None or not api.min_version <= head.api_version <= api.max_version:
            return self._on_unsupported(link, head, frame)
        if len(frame) > DECODED_AT_ONCE and api.is_long(frame, head.api_version, head.body_pos):
            call = Call(self, link, head, owned(link, frame))
            if self.quotas.is_on:
                self.quotas.begin(call)
            parts = self._drive(api, call, self._handle_long(api, call, head.body_pos))
        else:
            # Handlers that run to their end here read the frame where it lies; others get a copy.
            body = frame if api.in_place else memoryview(bytes(frame))
            call = Call(self, link, head, body)
            if self.quotas.is_on:
                self.quotas.begin(call)
            call.request = api.decode(body, head.api_version, head.body_pos)
            self.metrics.requests[head.api_key] += 1
            handle = api.handle if self.gate is None else self._handle_guarded
            parts = self._run(api, call, handle)
        call.has_waited = True
        if parts is None:
            call.owed = OwedReply(call, self._dropped)
        return parts

    def _handle_guarded(self, call: Call) -> Any:  # noqa: ANN401
        """Let a handler see what its client may touch."""
        assert self.gate is not None
        api = self._apis[call.api_key]
        call.denied = api.guard(self.gate, call, api.refuse)
        return api.handle(call)

    def on_disconnect(self, link: Link) -> None:
        """Forget a closed link and what it was waiting for."""
        if link.authenticator is not None:
            link.authenticator.forget()
        waiter = self.waiters.pop(link, None)
        if waiter is not None:
            self.replicas.waiting.remove(waiter)
            waiter.owner.abandon()
        if self._members is not None:
            self._members.followers.forget(link)
        self.pauses.forget(link)
        self.unpacking.forget(link)

    @property
    def standstill_ms(self) -> int | None:
        """How long this process may stand still before `on_stood_still` is to be called; None if that does not matter."""
        return None if self._members is None else self._members.standstill_ms

    def on_stood_still(self) -> None:
        """Hear that the process stood still for `standstill_ms`, before anything else that came meanwhile."""
        if self._members is not None:
            self._members.on_stood_still()

    def on_turn_end(self) -> None:
        """Write what was staged in this turn; finish the requests for which enough bytes came."""
        self.staging.write()
        ready = self.replicas.waiting.take_ready()
        try:
            if ready:
                call_all([partial(self._complete_or_close, waiter) for waiter in ready])
        finally:
            while self._dropped:
                self._answer_dropped(self._dropped.popleft())

    def _complete_or_close(self, waiter: Waiter[Any]) -> None:
        try:
            self.complete(waiter)
        except Exception:
            waiter.owner.call.link.close()
            raise

    @property
    def is_feeding_readers(self) -> bool:
        """Tell whether bytes have just come for readers who are to be answered: more of them would go into the answers."""
        waiting = self.replicas.waiting
        return waiting.is_fed and waiting.has_ready

    def complete(self, waiter: Waiter[Any]) -> None:
        """Let a request go on that has waited long enough."""
        call = waiter.owner.call
        if self.waiters.pop(call.link, None) is not waiter:
            return  # its link has gone
        if call.bill is not None:
            call.bill.go_on()
        try:
            parts = self._run(self._apis[call.api_key], call, waiter.owner.go_on)
        except CloseLink:
            call.link.close()
        else:
            if parts is not None and self._may_reply(call):
                call.link.reply(parts)

    def _may_reply(self, call: Call) -> bool:
        """Tell whether a call that had to wait has had no reply yet."""
        if call.owed is None or call.owed.give():
            return True
        self.replies_amiss += 1
        log.error(
            "%s v%d: a second reply to one request (correlation id %d) is not sent",
            self._apis[call.api_key].name, call.version, call.correlation_id, stack_info=True,
        )  # fmt: skip
        return False

    def _answer_dropped(self, owed: OwedReply) -> None:
        """Answer a request that nobody was going to answer."""
        api, link = self._apis[owed.api_key], owed.link
        if not (owed.give() and link.is_open):
            return
        self.replies_amiss += 1
        log.error(
            "%s v%d: nobody holds a request that waits (correlation id %d); answered with %s",
            api.name, owed.version, owed.correlation_id, owed.excuse.name,
        )  # fmt: skip
        if owed.request is None:  # it was not even decoded
            link.close()
            return
        response = api.refuse(owed.request, owed.excuse, None)
        header = response_header(owed.correlation_id, owed.api_key, owed.version)
        link.reply(finish(response.encode(owed.version), header))

    def hosted(self, topic: str, index: int) -> Replica | ErrorCode:
        """Find a replica that can be used, or the error to answer with: that of a topic before this one of the same name cannot."""
        replica, known = self.replicas.get(topic, index), self.topics.by_name.get(topic)
        if replica is not None:
            if replica.offline:
                return ErrorCode.KAFKA_STORAGE_ERROR
            if known is not None and known.id != replica.topic.id:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            return replica
        if known is not None and 0 <= index < len(known.partitions):
            if self.broker_id not in known.partitions[index].replicas:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            return ErrorCode.KAFKA_STORAGE_ERROR  # its log could not be opened
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @property
    def office(self) -> Office | None:
        """The controller's office, if this broker holds it."""
        return None if self._members is None else self._members.controller.office

    def check_controller(self) -> None:
        """Raise KafkaError if changes of topics must be asked of another broker."""
        if not self.is_lone:
            self.members.topics.find_office()

    def led(self, topic: str, index: int) -> Replica | ErrorCode:
        """Find a replica that can be used and leads its partition, or the error to answer with."""
        replica = self.hosted(topic, index)
        if isinstance(replica, ErrorCode) or replica.state.is_leader:
            return replica
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def pause(self, delay_ms: int, done: Done) -> None:
        """Let a task go on after a while: `yield partial(node.pause, delay_ms)`; at once for 0."""
        if delay_ms <= 0:
            done(None, None)
            return
        deadline_ms = self.world.clock.monotonic_ms() + delay_ms
        self.world.timers.call_at(deadline_ms, lambda: done(None, None))

    def load_dynamic_configs(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Take the settings that were changed at run time; they were checked when they were set."""
        own, everyone = configs.get(str(self.broker_id), {}), configs.get(ALL_BROKERS, {})
        if own or everyone:
            self.config = self.config.with_dynamic(own, everyone)

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """Resolve a topic's settings against the broker's."""
        return resolve_topic(self.config, overrides)

    def address_for(self, link: Link) -> tuple[str, int]:
        """Tell a client where to reach this broker: as advertised, else as it reached us now."""
        return self.advertised.get(link.listener) or (link.local_host, link.local_port)

    def finish(self, api: Api, call: Call, response: Any, problem: BaseException | None) -> None:  # noqa: ANN401
        """Answer a call that had to wait."""
        if not self._may_reply(call):
            return
        try:
            if problem is not None:
                response = self._refuse(api, call, problem)
            parts = self._encode(api, call, response)
        except CloseLink:
            call.link.close()
        else:
            call.link.reply(parts)

    def answer_late(self, call: Call, response: Any) -> None:  # noqa: ANN401
        """Answer a call whose handler has returned without a response."""
        self.finish(self._apis[call.api_key], call, response, None)

    def refusal(self, call: Call, code: ErrorCode) -> Any:  # noqa: ANN401
        """Make the response that refuses a call."""
        return self._apis[call.api_key].refuse(call.request, code, None)

    def _encode(self, api: Api, call: Call, response: Any) -> list[Any]:  # noqa: ANN401
        if call.bill is not None:
            self._throttle(call, call.bill, response)
        if response is NO_REPLY:
            if call.denied is not None:
                raise CloseLink("no answer was asked for, and not everything was allowed")
            return []
        try:
            return call.encode(response)
        except WireError as problem:  # our own fault: say so, and do not leave the client waiting
            log.error("%s v%d: the answer cannot be encoded: %s", api.name, call.version, problem)
            self.metrics.failures += 1
        try:
            return call.encode(api.refuse(call.request, ErrorCode.UNKNOWN_SERVER_ERROR, None))
        except WireError as problem:
            raise CloseLink("no answer could be encoded") from problem

    def _throttle(self, call: Call, bill: Bill, response: Any) -> None:  # noqa: ANN401
        """Tell a client how long it is throttled, and read nothing from it for as long."""
        throttle_ms = bill.settle()
        if throttle_ms:
            pieces.tell_throttle(response, throttle_ms)
            call.link.mute(throttle_ms)

    def _run(self, api: Api, call: Call, handle: Callable[[Call], Any]) -> list[Any] | None:
        """Let a handler work; the reply's parts, or None if they come later."""
        response: Any
        try:
            response = handle(call)
            if type(response) is GeneratorType:
                return self._drive(api, call, response)
        except CloseLink:
            raise
        except Exception as problem:  # noqa: BLE001  (an edge: a request fails alone)
            response = self._refuse(api, call, problem)
        if response is None:
            if call.bill is not None:
                call.bill.rest()
            return None
        return self._encode(api, call, response)

    def _drive(self, api: Api, call: Call, task: Task[Any]) -> list[Any] | None:
        """Run a task; the reply's parts if it ended before this returns, else its link gets them."""
        if call.bill is not None:
            task = call.bill.measured(task)
        at_once: list[Any] | None = None
        started = False

        def end(response: Any, problem: BaseException | None) -> None:  # noqa: ANN401
            nonlocal at_once
            if response is None and problem is None:
                return  # it waits, and answers by itself
            if started:
                self.finish(api, call, response, problem)
            elif problem is not None:
                at_once = self._encode(api, call, self._refuse(api, call, problem))
            else:
                at_once = self._encode(api, call, response)

        drive(task, end)
        started = True
        return at_once

    def _handle_long(self, api: Api, call: Call, position: int) -> Task[Any]:
        """Decode and encode in the background what takes long."""
        decode = partial(api.decode, call.frame, call.version, position)
        try:
            call.request = yield partial(self.world.background.compute, decode)
        except WireError as problem:
            log.warning("closing: %s", problem)
            raise CloseLink(str(problem)) from problem
        if call.owed is not None:
            call.owed.request = call.request
        self.metrics.requests[call.api_key] += 1
        try:
            if self.gate is not None:
                judge = partial(api.guard, self.gate, call, api.refuse)
                call.denied = yield partial(self.world.background.compute, judge)
            response = api.handle_long(call)
            if type(response) is GeneratorType:
                response = yield from response
        except KafkaError as problem:
            refuse = partial(api.refuse, call.request, problem.code, problem.message)
            response = yield partial(self.world.background.compute, refuse)
        if response is None or response is NO_REPLY or type(response) is pieces.EncodedResponse:
            return response
        # What a long request is answered is long, too.
        if call.bill is not None:
            pieces.tell_throttle(response, call.bill.settle())
        encode = partial(pieces.encode, call.whole(response), call.version)
        return (yield partial(self.world.background.compute, encode))

    def _refuse(self, api: Api, call: Call, problem: BaseException) -> Any:  # noqa: ANN401
        if isinstance(problem, CloseLink):
            # Another one: whoever raises what it was given is in its traceback and holds it, a circle in which the request's memory would stay.
            raise type(problem)(*problem.args)
        if isinstance(problem, KafkaError):
            return api.refuse(call.request, problem.code, problem.message)
        self.metrics.failures += 1
        ending = self._quiet.ending(place_of(problem), self.world.clock.monotonic_ms())
        if ending is not None:
            log.error(
                "%s v%d failed (correlation id %d, client %s)%s",
                api.name, call.version, call.correlation_id, call.client_id, ending, exc_info=problem,
            )  # fmt: skip
        return api.refuse(call.request, ErrorCode.UNKNOWN_SERVER_ERROR, None)

    def _on_unsupported(self, link: Link, head: RequestHead, frame: memoryview) -> list[Any]:
        if head.api_key == API_VERSIONS:
            return dispatch.unsupported_api_versions(Call(self, link, head, frame))
        raise WireError(
            f"API key {head.api_key} version {head.api_version} is not served here"
            f" (client {head.client_id!r})"
        )

    def _random_session_id(self) -> int:
        return int.from_bytes(self.world.rng.random_bytes(4)) & 0x7FFFFFFF or 1


def _raise(problem: Exception) -> None:
    raise problem
