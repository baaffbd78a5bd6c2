"""What a client of the load is told to do, and what it says of it.

A driver is a program that runs clients of one library. It reads jobs, one a line, `KEY=VALUE` with spaces between; an empty line ends them. Each
client sends until the next line comes, or until it has sent `limit` records of a kilobyte (larger ones count for more). It closes its
connections when standard input is closed: what was sent with acks=0 has arrived by then. A driver writes a line for each thing that happens:

    CLIENT send TOPIC PARTITION FIRST COUNT TIME_MS      a burst begins: records from the number FIRST on
    CLIENT ack TOPIC PARTITION FIRST COUNT OFFSET        acknowledged, at offsets from OFFSET on; -1 if that was not told
    CLIENT fail TOPIC PARTITION FIRST COUNT REASON       given up
    CLIENT end TIME_MS                                   everything that was sent is acknowledged or given up
    CLIENT begin | committed | aborted | unsure          a transaction begins, has ended
    CLIENT over REASON                                   it sends no more; `done` if all is well

The bursts, `COUNTxBYTES` with commas between, come in turn: so many records with so much padding, for one to three of its partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from oracle.ledger import End, Promise

if TYPE_CHECKING:
    from oracle.ledger import Ledger

ENDS = {"committed": End.COMMITTED, "aborted": End.ABORTED, "unsure": End.UNKNOWN}


@dataclass(frozen=True)
class Job:
    """One client."""

    client: str
    bootstrap: str
    #: TOPIC:PARTITION, with commas.
    targets: str
    seed: int = 0
    codec: str = "none"
    acks: str = "all"
    idempotent: bool = False
    #: A transactional id, or nothing.
    transactional: str = ""
    bursts: str = "300x200,1x20,1x20,1x20"
    #: The padding cannot be compressed.
    random: bool = False
    linger_ms: int = 5
    #: Tries again what failed, which is a record twice at times if it is not idempotent.
    retries: bool = True
    limit: int = 20_000
    #: Milliseconds between two bursts.
    pause_ms: int = 0
    #: The file of the authority, if the broker is to be spoken to by TLS.
    ca: str = ""
    mechanism: str = ""
    user: str = ""
    password: str = ""
    #: See Promise: what is acknowledged stays, whatever happens in this load.
    keeps: bool = True

    def line(self) -> str:
        """Write the job as a driver reads it."""
        pairs = ((each.name, getattr(self, each.name)) for each in fields(self))
        return " ".join(f"{key}={_word(value)}" for key, value in pairs if value != "")

    @property
    def promise(self) -> Promise:
        return Promise(
            at_most_once=self.idempotent or bool(self.transactional) or not self.retries,
            keeps=self.keeps,
            is_silent=self.acks == "0",
            is_transactional=bool(self.transactional),
        )


def _word(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def read_job(line: str) -> dict[str, str]:
    """Read what `Job.line` wrote."""
    return dict(word.split("=", 1) for word in line.split())


def note(ledger: Ledger, line: str) -> str | None:
    """Note in the ledger what a driver said; what is said of the end, if it was that."""
    client, what, *rest = line.split(" ", 2)
    words = rest[0].split(" ") if rest else []
    if what == "send":
        ledger.sent(client, words[0], *map(int, words[1:5]))
    elif what == "ack":
        ledger.acknowledged(client, words[0], *map(int, words[1:5]))
    elif what == "fail":
        ledger.failed(client, words[0], *map(int, words[1:4]))
    elif what == "end":
        ledger.ended(client, int(words[0]))
    elif what == "begin":
        ledger.began(client)
    elif what in ENDS:
        ledger.finished(client, ENDS[what])
    else:
        assert what == "over", line
        return rest[0]
    return None
