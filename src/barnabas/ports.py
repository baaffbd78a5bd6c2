"""The few interfaces through which the broker touches the world.

`runtime/` implements them for real, `sim/` with a seed. Nothing here decides anything. Every call runs
on the one thread of decision unless its docstring says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from typing_extensions import Buffer

    from barnabas.model.principal import Principal


#: What a descriptor is watched for, and what a poll says of it: the bits of `epoll`.
READ: Final = 0x001
WRITE: Final = 0x004
#: The peer closed its side; asked for together with READ or WRITE or alone.
HANGUP: Final = 0x2000


class Clock(Protocol):
    """Two clocks: one that people read, one that never jumps."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, for record timestamps. May jump either way."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some start, for deadlines. Never goes back."""

    def monotonic_ns(self) -> int:
        """Nanoseconds of the same clock: what work takes."""


class Rng(Protocol):
    """Random bytes: ids that must not repeat."""

    def random_bytes(self, size: int) -> bytes:
        """Return `size` random bytes."""


class Timer(Protocol):
    """A call that has been booked."""

    def cancel(self) -> None:
        """Do not call any more. Harmless after the call was made."""


class Timers(Protocol):
    """Calls at a later time."""

    def call_at(self, deadline_ms: int, call: Callable[[], None]) -> Timer:
        """Make the call on the thread of decision at or after this time of `Clock.monotonic_ms`."""


class Background(Protocol):
    """Work beside the thread of decision, by what it waits for: jobs of one kind do not hold up those of another.

    Jobs may run side by side and end in any order; `done(result, error)` is called on the thread of decision. The queue is as
    long as the callers make it: each caller keeps at most one job per partition or connection under way.
    """

    def run(
        self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run what waits for a disk: fsync, cold reads, deleting files."""

    def compute(
        self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run what keeps a processor busy: handshakes, compressed batches, long requests. It waits for nothing."""

    def ask_network(
        self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run what waits for a network, and may do so for long. OSError, and nothing was run, if too many do."""


class WouldBlock(Exception):
    """The bytes asked for are not in memory: ask again from a background job."""


class File(Protocol):
    """One file by name. The descriptor underneath may be closed and opened again in between.

    All errors are OSError. Reading and syncing are safe from a background job.
    """

    path: str

    def size(self) -> int:
        """Bytes in the file now."""

    def modified_ms(self) -> int:
        """When it was last written, in milliseconds since 1970."""

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the file."""

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers one after another from `position`.

        On an error some part may have been written: the caller cuts the file back.
        """

    def truncate(self, size: int) -> None:
        """Cut or extend to `size` bytes."""

    def sync(self) -> None:
        """Return when data and size are on the medium. Blocks: background only."""

    def cached(self, position: int, size: int) -> bool:
        """Tell whether reading this range would not wait for the medium, as far as can be told."""

    def load(self, position: int, size: int) -> None:
        """Return when this range is in memory. Blocks: background only."""

    def fileno(self) -> int:
        """Return a descriptor that stays good until the next call of any File method on this disk."""

    def close(self) -> None:
        """Give the descriptor back. The object stays usable: the next call opens it again."""


class Disk(Protocol):
    """A tree of files under plain string paths with `/`. All errors are OSError."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open an existing file, or create it; FileNotFoundError if there is none."""

    def read_file(self, path: str) -> bytes:
        """Return the whole content."""

    def write_file_atomically(self, path: str, content: bytes, *, sync: bool = True) -> None:
        """Replace the content whole: after a crash the old or the new one is there.

        Without `sync` that holds for a crash of the process; a power loss may leave the file as it was or empty.
        """

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted."""

    def exists(self, path: str) -> bool:
        """Tell whether a file or folder is there."""

    def is_dir(self, path: str) -> bool:
        """Tell whether it is a folder."""

    def make_dir(self, path: str, *, sync: bool = True) -> None:
        """Create a folder and its parents; fine if it is there. With `sync` the parents are synced."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file or folder, replacing a file at `new`. Files opened by the old name follow."""

    def remove(self, path: str) -> None:
        """Remove a file; fine if it is not there."""

    def remove_tree(self, path: str) -> None:
        """Remove a folder and all in it; fine if it is not there."""

    def sync_dir(self, path: str) -> None:
        """Return when creations, renames and removals in this folder are on the medium."""

    def space(self, path: str) -> tuple[int, int]:
        """Return (total bytes, usable bytes) of the volume that holds the folder."""


@dataclass(slots=True)
class FileSlice:
    """A range of a file that goes out as it is: what a Fetch answer is made of."""

    file: File
    position: int
    size: int

    def __len__(self) -> int:
        """Bytes in the range."""
        return self.size

    def read(self) -> bytes:
        """Return the bytes: for links that cannot sendfile, and for tests."""
        return self.file.read(self.position, self.size)

    def load(self) -> None:
        """Bring the bytes into memory. Blocks: background only."""
        self.file.load(self.position, self.size)


@dataclass(slots=True, frozen=True)
class ZNode:
    """What the coordination store holds at one path."""

    data: bytes
    #: How often the data was replaced.
    version: int
    #: The store's transaction that created it: rises from each creation to the next (ZooKeeper's czxid).
    created: int = 0
    #: The session at whose end it vanishes; 0 if it stays.
    owner: int = 0
    #: The store's transaction that wrote the data last (ZooKeeper's mzxid): tells what came after what. The store of a lone broker
    #: does not keep it.
    written: int = 0


@dataclass(slots=True, frozen=True)
class Create:
    """Create a path; its parents are made as needed, empty and lasting. Fails with NODE_EXISTS if it is there.

    An `ephemeral` one vanishes with the session and can have no children (NO_CHILDREN_FOR_EPHEMERALS). A
    `sequential` one gets ten digits at the end of its name that rise from one to the next under the same parent.
    """

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


@dataclass(slots=True, frozen=True)
class SetData:
    """Replace the data; version -1 matches any. Fails with NO_NODE or BAD_VERSION."""

    path: str
    data: bytes
    version: int = -1


@dataclass(slots=True, frozen=True)
class Delete:
    """Delete a path and all below it. Fails with NO_NODE or BAD_VERSION (the version is that of `path` alone).

    What lies below was not made by the same commit. More than 2,000 paths do not go in one step: those below are
    deleted first, under the commit's Checks, and a crash in between leaves `path` itself for another try.
    """

    path: str
    version: int = -1


@dataclass(slots=True, frozen=True)
class Check:
    """Change nothing, but let the commit fail unless the path has this version (-1: any) when it happens."""

    path: str
    version: int = -1


Operation = Create | SetData | Delete | Check

#: What one commit may hold, counted by `operation_size`: ZooKeeper takes no request above 1 MiB. The store of a
#: lone node takes any.
COMMIT_SIZE_MAX: Final = 900_000


def operation_size(operation: Operation) -> int:
    """Return about how many bytes an operation takes on its way to ZooKeeper."""
    data = operation.data if isinstance(operation, Create | SetData) else b""
    return 80 + len(operation.path) + len(data)


class CoordinationError(Exception):
    """An operation was refused and nothing was done. `kind` is ZooKeeper's word for it."""

    def __init__(self, kind: str, path: str) -> None:
        """Remember the kind and the path.

        Kinds: NODE_EXISTS, NO_NODE, BAD_VERSION, NO_CHILDREN_FOR_EPHEMERALS, NOT_EMPTY (others keep adding to what is
        to be deleted), TOO_LARGE (see COMMIT_SIZE_MAX), and what else ZooKeeper refuses, by its name.
        """
        super().__init__(f"{kind}: {path}")
        self.kind = kind
        self.path = path


class NotConnected(OSError):
    """Nothing was done: the store could not be reached in time, or the session expired before it was asked."""


class OutcomeUnknown(OSError):
    """The connection was lost with the commit under way: it was done whole, or not at all.

    What is read after this was told shows which, and does not change any more.
    """


class Watch(Protocol):
    """An interest in a path."""

    def cancel(self) -> None:
        """Do not call any more."""


class SessionListener(Protocol):
    """Who is told how the session with the store fares."""

    def on_connected(self, session_id: int, *, is_new: bool) -> None:
        """Hear of a connection: the first one of a session, or the same session again after `on_suspended`."""

    def on_suspended(self) -> None:
        """Hear that the connection is lost. The session may live on; only the store knows."""

    def on_expired(self) -> None:
        """Hear that the session is over and its ephemeral paths are gone. A new session is sought without being asked."""

    def on_gone_back(self) -> None:
        """Hear that the store was put back: it has forgotten transactions that were seen here. `on_expired` follows."""


class Coordination(Protocol):
    """The small shared memory of a cluster: ZooKeeper, or a stand-in on one node.

    Answers come through `done` on the thread of decision, never before the call returns. What is asked while there
    is no connection waits for one, as long as a session lasts without contact, then fails with NotConnected; an expired
    session fails what was asked in it. Reads see every commit that was answered before they were asked, and no answer
    shows an older state than the one before it (`read_tree` may: it takes several steps).
    """

    def read_tree(
        self, path: str, done: Callable[[Mapping[str, ZNode], BaseException | None], None]
    ) -> None:
        """Answer with every path at or below `path`; empty if there is none.

        One path after another, not one moment: what changes meanwhile is there in part.
        """

    def read(self, path: str, done: Callable[[ZNode | None, BaseException | None], None]) -> None:
        """Answer with what stands at `path`; None if nothing does."""

    def read_children(
        self, path: str, done: Callable[[Sequence[str] | None, BaseException | None], None]
    ) -> None:
        """Answer with the names right below `path`, sorted; None if it is not there."""

    def commit(
        self,
        operations: Sequence[Operation],
        done: Callable[[Sequence[str], BaseException | None], None],
    ) -> None:
        """Do all or none, durably, in order with other commits of this node.

        The answer is the path of each operation, those of sequential ones with their number. Errors: a
        CoordinationError or NotConnected: nothing was done; OutcomeUnknown: read what became of it.
        """

    def watch(self, path: str, changed: Callable[[], None]) -> Watch:
        """Have `changed` called whenever `path`, or the list of its children, may have changed since this call.

        Several changes may make one call, and a call may come for no change, as after every reconnection; but who
        reads after this call and again after each call of `changed` ends with what is there.
        """

    def on_session(self, listener: SessionListener) -> None:
        """Tell the listener from now on, first of the connection if there is one."""


class Link(Protocol):
    """One client's connection, as the node sees it."""

    listener: str
    local_host: str
    local_port: int
    peer_host: str
    #: The node's own: how it recognises requests that repeat (`broker/repeats.py`); None at first.
    lanes: Any
    #: Who is at the other end: `ANONYMOUS` unless a login or a certificate says otherwise.
    principal: Principal
    #: The login (`broker/authentication.py`) where the listener asks for one, also once it is done; else None.
    authenticator: Any
    #: The longest request that is taken now: little before a login is done.
    frame_bytes_max: int
    #: Requests of this link went a lane and are not answered yet: the node's, until `reply_repeated`.
    has_staged: bool

    @property
    def is_open(self) -> bool:
        """Tell whether the client can be answered: it has not gone, and the connection was not closed."""

    @property
    def owns_frame(self) -> bool:
        """Tell whether the request that the node is being handed lies in memory of its own, which stays as it is until the answer.

        Else its memory is lent, and can be read only until the node has returned.
        """

    def reply(self, buffers: list[Any]) -> None:
        """Answer the request for which the node said that it must wait. Once per request.

        The parts are bytes-like objects and FileSlices, sent in order. Harmless on a closed link.
        """

    def mute(self, delay_ms: int) -> None:
        """Take no more requests for a while, once the one at hand is answered: its client has used up a quota."""

    def reply_repeated(self, answers: bytes) -> None:
        """Answer requests that went a lane, one or several, in order. Harmless on a closed link."""

    def close_when_sent(self) -> None:
        """Read no more, and end the connection once its last answer has left: that of the request under way."""

    def close(self) -> None:
        """End the connection."""


class PeerEvents(Protocol):
    """Who opened a connection to another broker, and is told what becomes of it."""

    def on_connected(self) -> None:
        """Hear that the other side took the connection."""

    def on_frame(self, frame: memoryview) -> None:
        """Take a reply, without its length. It is lent: it cannot be read after this returns, and what was cut out of it is to be copied."""

    def on_closed(self, reason: str) -> None:
        """Hear that the connection is gone or could not be had. Once, and the last call; not after `Peer.close`."""


class Peer(Protocol):
    """A connection that this broker opened to another one."""

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Send a request whole, after those before it. Harmless on a closed connection."""

    def close(self) -> None:
        """End the connection; nothing is told any more."""


class Peers(Protocol):
    """Connections to the other brokers of a cluster."""

    def connect(self, host: str, port: int, events: PeerEvents) -> Peer:
        """Begin to connect; `events` hears of it later, never before this returns."""


@dataclass(slots=True)
class World:
    """Everything outside of one node."""

    clock: Clock
    rng: Rng
    timers: Timers
    background: Background
    coordination: Coordination
    disk: Disk
    #: None for a broker that has no others.
    peers: Peers | None = None
