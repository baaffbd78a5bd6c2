"""What is always true within a cluster, seen from inside: in the store at every commit, in the nodes from time to time.

Job: look, and raise a `Violation`. Must not change anything, nor draw from chance.

- **one leader per epoch**: in the store, and by what the nodes believe; after a restart it leads in a later one;
- **epochs never fall**: those of leaders, of controllers, and versions of what is stored;
- **a fenced controller changes nothing**: who begins a leader epoch writes the present controller epoch;
- **the high watermark never falls** within an epoch on one broker;
- **replicas agree below the high watermark**: whatever one of them ever called committed, each has it, byte for byte;
- **who leads is registered**, as far as it knows;
- **the cluster becomes whole**: led, in sync, known to everybody; nobody knows or hosts what the store does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker import cluster_znodes, znodes
from barnabas.model.ids import topic_id_from_text
from barnabas.sim.violation import Violation
from barnabas.wire import batch as batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from barnabas.broker.replicas import Replica
    from barnabas.sim.history import Key
    from barnabas.sim.machine import Machine
    from barnabas.sim.store import SimStore

_STATE: Final = "/state"
#: Of every topic; more only while replicas are being moved.
REPLICATION_FACTOR: Final = 3


#: A partition and the id of its topic: one that is made again has another log.
_LogId = tuple[str, int, bytes]


class _Batch(NamedTuple):
    """What makes a batch that one."""

    end_offset: int
    leader_epoch: int
    checksum: int


class StoreChecker:
    """Sees every commit, as one of the store's clients."""

    def __init__(self, store: SimStore) -> None:
        """Watch from the start."""
        self._store = store
        self._leaders: dict[tuple[str, int], int] = {}
        self._states: dict[str, cluster_znodes.StoredState] = {}
        self._controller_epoch = 0
        store.clients["checker"] = self

    def on_touched(self, paths: set[str]) -> None:
        """Look at what was changed."""
        tree = self._store.tree
        if cluster_znodes.CONTROLLER_EPOCH in paths:
            epoch = int(tree[cluster_znodes.CONTROLLER_EPOCH].data)
            if epoch < self._controller_epoch:
                raise Violation("epochs never fall", f"controller epoch {epoch} after a later one")
            self._controller_epoch = epoch
        for path in sorted(paths):
            if path.endswith(_STATE) and path in tree:
                self._on_state(path, cluster_znodes.read_state(tree[path]))
            elif self._states.pop(path, None) is not None:  # deleted: it may be made again
                self._leaders = {key: one for key, one in self._leaders.items() if key[0] != path}

    def _on_state(self, path: str, state: cluster_znodes.StoredState) -> None:
        before = self._states.get(path)
        self._states[path] = state
        if self._leaders.setdefault((path, state.leader_epoch), state.leader) != state.leader:
            raise Violation(
                "one leader per epoch", f"{path}: {before} became {state} in the same epoch"
            )
        if before is not None and state.leader_epoch < before.leader_epoch:
            raise Violation("epochs never fall", f"{path}: {before} became {state}")
        begins = before is None or state.leader_epoch > before.leader_epoch
        if begins and state.controller_epoch < self._controller_epoch:
            raise Violation(
                "a fenced controller changes nothing",
                f"{path}: {state} in controller epoch {self._controller_epoch}",
            )
        if state.leader >= 0 and state.leader not in state.in_sync:
            raise Violation("who leads is in sync", f"{path}: {state}")

    def cut(self, *, at_once: bool) -> None:
        """Be no real client."""

    def on_put_back(self) -> None:
        """Forget what the store has forgotten: other leaders may be in the same epochs there. Nodes may not follow it in that."""
        tree = self._store.tree
        self._states = {
            path: cluster_znodes.read_state(node)
            for path, node in tree.items()
            if path.endswith(_STATE)
        }
        self._leaders = {
            (path, state.leader_epoch): state.leader for path, state in self._states.items()
        }
        self._controller_epoch = int(tree[cluster_znodes.CONTROLLER_EPOCH].data)

    def mend(self) -> None:
        """Be no real client."""

    def lose_next_reply(self) -> None:
        """Be no real client."""


class NodeChecker:
    """Looks into the nodes."""

    def __init__(self, machines: Mapping[int, Machine], store: SimStore) -> None:
        """Have seen nothing."""
        self._machines = machines
        self._store = store
        #: (log, epoch) -> (broker, which of its lives).
        self._leaders: dict[tuple[_LogId, int], tuple[int, int]] = {}
        self._watermarks: dict[tuple[int, int, _LogId], tuple[int, int]] = {}
        self._committed: dict[_LogId, dict[int, _Batch]] = {}

    def look(self) -> None:
        """Compare what the nodes believe."""
        for broker, machine in self._machines.items():
            for replica in _replicas(machine):
                self._look_at(broker, machine.life.number, replica)

    def _look_at(self, broker: int, life: int, replica: Replica) -> None:
        state, key = replica.state, _log_id(replica)
        node = self._machines[broker].node
        assert node is not None
        if state.is_leader and not node.members.is_registered and not self._store.was_put_back:
            raise Violation(
                "who leads is registered", f"broker {broker} leads {key[0]}-{key[1]} and is not"
            )
        # One that knows of nothing later follows a store that was put back; it finds nobody to commit with.
        if state.is_leader and not self._store.was_put_back:
            who = (broker, life)
            first = self._leaders.setdefault((key, state.leader_epoch), who)
            if first != who:
                raise Violation(
                    "one leader per epoch",
                    f"broker {first[0]} in life {first[1]} and broker {who[0]} in life {who[1]} both lead {key[0]}-{key[1]}"
                    f" in epoch {state.leader_epoch}",
                )
        epoch, watermark = self._watermarks.get((broker, life, key), (-1, 0))
        if state.leader_epoch < epoch:
            raise Violation("epochs never fall", f"broker {broker}, {key}: {epoch} before")
        if state.leader_epoch == epoch and state.high_watermark < watermark:
            raise Violation(
                "the high watermark never falls",
                f"broker {broker}, {key[0]}-{key[1]}: from {watermark} to {state.high_watermark} in epoch {epoch}",
            )
        self._watermarks[broker, life, key] = (state.leader_epoch, state.high_watermark)

    def compare_logs(self) -> None:
        """See that all agree on what anybody ever called committed."""
        for broker, machine in self._machines.items():
            files = machine.disk.contents()
            for replica in _replicas(machine):
                if not replica.is_cutting:
                    self._compare(broker, replica, files)

    def _compare(self, broker: int, replica: Replica, files: Mapping[str, bytes]) -> None:
        key = _log_id(replica)
        committed = self._committed.setdefault(key, {})
        expected = 0
        for base_offset, found in _batches(replica, files):
            if found.end_offset > replica.state.high_watermark:
                break
            known = committed.setdefault(base_offset, found)
            if known != found or base_offset != expected:
                raise Violation(
                    "replicas agree below the high watermark",
                    f"broker {broker}, {key[0]}-{key[1]} at {expected}: {base_offset} {found}, once committed was {known}",
                )
            expected = found.end_offset
        if expected < replica.state.high_watermark:
            raise Violation(
                "replicas agree below the high watermark",
                f"broker {broker}, {key[0]}-{key[1]} ends at {expected}, below its high watermark {replica.state.high_watermark}",
            )

    # In the end

    def missing(self, keys: list[Key]) -> list[str]:
        """Say what is left until the cluster is whole."""
        tree, found = self._store.tree, []
        if cluster_znodes.CONTROLLER not in tree:
            found.append("there is no controller")
        for broker, machine in self._machines.items():
            if cluster_znodes.broker_path(broker) not in tree:
                failure = f", last failure {machine.last_failure!r}" if machine.is_off else ""
                found.append(f"broker {broker} is not registered{failure}")
        for key in keys:
            node = tree.get(cluster_znodes.state_path(*key))
            if node is None:
                found.append(f"{key[0]}-{key[1]} has no state")
            else:
                found += self._partition_missing(key, cluster_znodes.read_state(node))
        if not self._store.was_put_back:
            for broker, machine in self._machines.items():
                found += self._strange(broker, machine)
        return found

    def _strange(self, broker: int, machine: Machine) -> Iterator[str]:
        """Say what a broker knows or hosts that the store does not have."""
        if machine.node is None:
            return
        tree, known = self._store.tree, machine.node.topics.by_name
        paths = [path for path in tree if path.startswith(znodes.TOPICS + "/")]
        stored = {
            path.rpartition("/")[2]: cluster_znodes.read_topic(tree[path])
            for path in paths
            if path.count("/") == znodes.TOPICS.count("/") + 1
        }
        for name in sorted(known.keys() ^ stored.keys()):
            is_gone = name in known
            yield f"broker {broker} {'knows' if is_gone else 'does not know'} topic {name}"
        for replica in _replicas(machine):
            topic = stored.get(replica.key.topic)
            if (
                topic is None
                or topic_id_from_text(topic.id_text) != replica.topic.id
                or broker not in topic.replicas.get(replica.key.partition, ())
            ):
                yield f"broker {broker} hosts {replica.key}, which is not there"

    def _partition_missing(self, key: Key, stored: cluster_znodes.StoredState) -> Iterator[str]:
        name = f"{key[0]}-{key[1]}"
        if stored.leader < 0:
            yield f"{name} has no leader, in sync {list(stored.in_sync)}"
            return
        machine = self._machines[stored.leader]
        led = [one for one in _replicas(machine) if one.key == key and one.state.is_leader]
        if not led or led[0].state.leader_epoch != stored.leader_epoch:
            yield f"{name}: broker {stored.leader} does not lead in epoch {stored.leader_epoch}"
            return
        replicas = led[0].state.replicas
        if sorted(stored.in_sync) != sorted(replicas) or len(replicas) != REPLICATION_FACTOR:
            yield f"{name}: in sync {list(stored.in_sync)} of {list(replicas)}"
        for broker in replicas:
            if not any(
                one.key == key and one.state.leader_epoch == stored.leader_epoch
                for one in _replicas(self._machines[broker])
            ):
                yield f"{name}: broker {broker} knows nothing of epoch {stored.leader_epoch}"


def _log_id(replica: Replica) -> _LogId:
    return replica.key.topic, replica.key.partition, replica.topic.id


def _replicas(machine: Machine) -> list[Replica]:
    if machine.node is None or not machine.life.was_up or machine.life.is_over:
        return []
    return [replica for replica in machine.node.replicas if not replica.offline]


def _batches(replica: Replica, files: Mapping[str, bytes]) -> Iterator[tuple[int, _Batch]]:
    """Read a log as it lies on the disk."""
    folder = replica.log.directory + "/"
    names = sorted(path for path in files if path.startswith(folder) and path.endswith(".log"))
    for name in names:
        for _position, header in batches.headers(memoryview(files[name])):
            yield (
                header.base_offset,
                _Batch(header.last_offset + 1, header.partition_leader_epoch, header.crc),
            )
