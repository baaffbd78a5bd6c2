"""Moving partitions from one log directory to another while they are served (AlterReplicaLogDirs, KIP-113).

| step                                               | what a crash leaves                                          |
|----------------------------------------------------|--------------------------------------------------------------|
| copy into `topic-N.<id>-future` in the background   | the old folder; the copy begins again at the next start      |
| copy the last bytes, rename `-future` to `topic-N`  | two folders: the next start takes the one that reaches       |
|                                                    | further, see `startup`                                       |
| flush the new folder, then rename the old `-delete` | the new folder                                               |

The middle step runs on the thread of decision, so no request comes in between: what was acknowledged before is in both
folders, what comes later in the new one alone. The old one stays until the new one is on the medium.
One move copies at a time, at replica.alter.log.dirs.io.max.bytes.per.second at most.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker import checkpointing
from barnabas.broker.disk_failures import is_of_directory
from barnabas.broker.file_removal import remove_folders_later
from barnabas.broker.log_claims import log_id
from barnabas.broker.tasks import drive
from barnabas.broker.tenure import TenureOver
from barnabas.broker.turns import Turns
from barnabas.model.ids import TopicId
from barnabas.storage.relocation import Relocation, SourceError

if TYPE_CHECKING:
    from barnabas.broker.log_claims import LogClaim, LogId
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Done, Task
    from barnabas.model.ids import TopicPartition
    from barnabas.storage.directory import LogDirectory

log = logging.getLogger(__name__)

#: How long a throttled copy pauses before it looks whether it is still wanted.
PAUSE_MS: Final = 100


class Move:
    """One partition on its way."""

    __slots__ = ("directory", "is_cancelled", "is_placed", "relocation", "replica")

    def __init__(self, replica: Replica, directory: LogDirectory) -> None:
        """Begin with nothing copied."""
        self.replica = replica
        self.directory = directory
        self.relocation: Relocation | None = None
        self.is_cancelled = False
        #: The new folder is in use, the old one is yet to go.
        self.is_placed = False

    @property
    def size_bytes(self) -> int:
        """Bytes copied so far."""
        return 0 if self.relocation is None else self.relocation.size_bytes

    @property
    def offset_lag(self) -> int:
        """How many offsets the copy is behind."""
        log_ = self.replica.log
        end = log_.log_start_offset if self.relocation is None else self.relocation.end_offset
        return max(0, log_.log_end_offset - end)


class LogMoves:
    """See the module. At most one for each log."""

    def __init__(self, node: Node) -> None:
        """Begin with none."""
        self._node = node
        self._moves: dict[LogId, Move] = {}
        #: Where a log is to go when the move that is at its end is over.
        self._next: dict[LogId, LogDirectory] = {}
        self._copying = Turns()
        self._stopped = False
        self._waiters: list[Done] = []

    def request(self, replica: Replica, directory: LogDirectory) -> None:
        """Move a hosted partition to a directory; one that is there already stays, a move elsewhere is given up."""
        key = log_id(replica)
        move = self._moves.get(key)
        self._next.pop(key, None)
        if move is not None and move.is_placed:
            self._next[key] = directory
        elif move is None or move.directory is not directory:
            if move is not None:
                move.is_cancelled = True
                del self._moves[key]
            if replica.directory is not directory:
                self._moves[key] = move = Move(replica, directory)
                drive(self._run(move), partial(self._on_end, move))

    def is_moving(self, key: TopicPartition) -> bool:
        """Tell whether a partition is on its way."""
        return any(move.replica.key == key for move in self._moves.values())

    def into(self, directory: LogDirectory) -> list[Move]:
        """Return the moves into a directory that are not there yet."""
        moves = self._moves.values()
        return [move for move in moves if move.directory is directory and not move.is_placed]

    def stop(self, done: Done) -> None:
        """Begin nothing more, and answer when no folder is being exchanged. The next start begins copies again."""
        self._stopped = True
        self._waiters.append(done)
        self._tell_waiters()

    def _tell_waiters(self) -> None:
        if self._stopped and not any(move.is_placed for move in self._moves.values()):
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter(None, None)

    def _on_end(self, move: Move, _result: None, problem: BaseException | None) -> None:
        key = log_id(move.replica)
        if problem is not None:
            log.error("%s: moving it failed", move.replica.key, exc_info=problem)
        if self._moves.get(key) is move:
            del self._moves[key]
        self._tell_waiters()
        directory = self._next.pop(key, None)
        if directory is not None and self._is_hosted(move.replica):
            self.request(move.replica, directory)

    def _is_hosted(self, move_of: Replica) -> bool:
        return self._node.replicas.get(*move_of.key) is move_of and not move_of.offline

    def _is_wanted(self, move: Move) -> bool:
        return (
            not self._stopped
            and not move.is_cancelled
            and move.directory.is_online
            and self._is_hosted(move.replica)
        )

    # Copying

    def _run(self, move: Move) -> Task[None]:
        yield self._copying.take
        try:
            source = yield from self._copy_alone(move)
        except SourceError as error:
            move.replica.on_disk_error(error.problem, "copy")
        except FileExistsError as problem:  # a folder is in the way: the disk is well
            log.error("%s: not moved to %s: %s", move.replica.key, move.directory.path, problem)
        except OSError as problem:
            log.error("%s: not moved to %s: %s", move.replica.key, move.directory.path, problem)
            if is_of_directory(problem):
                self._node.replicas.take_offline(move.directory, problem)
        else:
            if source is not None:
                yield from self._leave(move, source)
                return
        finally:
            self._copying.give()
        yield from self._clear(move)

    def _copy_alone(self, move: Move) -> Task[LogDirectory | None]:
        is_wanted = partial(self._is_wanted, move)
        claim = yield from self._node.claims.wait(move.replica, is_wanted)
        if claim is None:
            return None
        try:
            return (yield from self._copy(move, claim))
        except TenureOver:
            return None
        finally:
            claim.give()

    def _copy(self, move: Move, claim: LogClaim) -> Task[LogDirectory | None]:
        """Copy until the log has moved; the directory that it left, None if the move is not wanted any more."""
        node, replica = self._node, move.replica
        while self._is_wanted(move):
            if move.relocation is None:
                make = partial(move.directory.make_future, replica.key, TopicId(replica.topic.id))
                folder = yield partial(node.directory_jobs.run, make)
                move.relocation = Relocation(node.world.disk, replica.log, folder)
                continue
            job = move.relocation.plan()
            if job is None:
                return self._exchange(move, move.relocation)
            copied = yield claim.work(partial(node.world.background.run, job))
            yield from self._rest(move, self._throttle_ms(copied))
        return None

    def _rest(self, move: Move, delay_ms: int) -> Task[None]:
        """Pause for the throttle, not longer than the move is wanted: others wait for its claim."""
        clock = self._node.world.clock
        until_ms = clock.monotonic_ms() + delay_ms
        while self._is_wanted(move) and clock.monotonic_ms() < until_ms:
            left_ms = until_ms - clock.monotonic_ms()
            yield partial(self._node.pause, min(left_ms, PAUSE_MS))

    def _throttle_ms(self, copied_bytes: int) -> int:
        rate = self._node.config.get_int("replica.alter.log.dirs.io.max.bytes.per.second")
        return copied_bytes * 1000 // max(1, rate)

    # Exchanging

    def _exchange(self, move: Move, relocation: Relocation) -> LogDirectory:
        """Let the log go on in its new folder. On an error it stays where it was."""
        replica, source = move.replica, move.replica.directory
        relocation.finish()
        folder = move.directory.take_future(relocation.folder, replica.key)
        relocation.move_log(folder)
        move.is_placed = True
        replica.directory = move.directory
        self._node.placement.put(replica.key, move.directory)
        clean_offset = source.cleaner_offsets.pop(replica.key, None)
        if clean_offset is not None:
            move.directory.cleaner_offsets[replica.key] = clean_offset
        log.info("%s: moved from %s to %s", replica.key, source.path, move.directory.path)
        return source

    def _leave(self, move: Move, source: LogDirectory) -> Task[None]:
        """Give the old folder up once the new one is safe."""
        node, replica = self._node, move.replica
        try:
            yield replica.flush
        except OSError:
            if self._node.replicas.get(*replica.key) is replica:
                return  # the replica has been taken offline; the next start finds both folders
        yield from checkpointing.write_all(node, node.directories)

        def set_aside() -> list[str]:
            # Not what a new topic of the same name made there meanwhile.
            path = source.set_own_aside(replica.key, TopicId(replica.topic.id), is_stray=False)
            return [] if path is None else [path]

        try:
            paths = yield partial(node.directory_jobs.run, set_aside)
        except OSError as problem:
            log.error("%s: its old folder in %s stays: %s", replica.key, source.path, problem)
        else:
            remove_folders_later(node.world, paths, replica.config.file_delete_delay_ms)
            yield from checkpointing.write(node, source)

    def _clear(self, move: Move) -> Task[None]:
        """Remove a copy that nobody wants; at a stop it stays, as a note of what was wanted."""
        if move.relocation is None or self._stopped or not move.directory.is_online:
            return
        remove = partial(self._node.world.disk.remove_tree, move.relocation.folder)
        try:
            yield partial(self._node.world.background.run, remove)
        except OSError as problem:
            log.error("cannot remove %s: %s", move.relocation.folder, problem)
