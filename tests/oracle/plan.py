"""Which clients a load has, and what they do: drawn by a seed, so that every library has every kind of client, and every codec turns up."""

from __future__ import annotations

from dataclasses import dataclass

from oracle.jobs import Job

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
#: Bursts that are opened in the background where they are compressed, and have about the length of the requests of one record behind them: these go lanes.
LANES = "2000x300,1x300,1x300,1x300"
SMALL = "40x60,1x20,1x20,1x20,1x20"
LARGE = "2x250000,1x900000,1x20,1x20,100x3000"
MIXED = "500x300,1x20,20x9000,1x20"
BURSTS = (LANES, SMALL, LARGE, MIXED)
#: Libraries whose clients try again whatever they are told.
ALWAYS_TRY_AGAIN = ("aiokafka", "franz")


@dataclass(frozen=True)
class Kind:
    """One kind of client."""

    acks: str = "all"
    idempotent: bool = False
    retries: bool = True
    is_transactional: bool = False


KINDS = {
    "fire": Kind(acks="0", retries=False),
    "once": Kind(acks="1", retries=False),
    "again": Kind(),
    "sure": Kind(idempotent=True),
    "txn": Kind(is_transactional=True),
}
#: Those whose records are acknowledged only when they will stay, whoever leads and however connections break.
STAYING = ("again", "sure", "txn")
#: Those that can go on when their topic was made again, or when they may not write for a while.
SIMPLE = ("once", "again")


def draw(rng, library, kinds, targets, limit, tag="", **options):
    """A client of each kind, with codecs and bursts as they come; `options` are those of every Job, or what gives them for a client."""
    codecs = rng.sample(CODECS, len(CODECS))
    jobs = []
    for at, name in enumerate(kinds):
        kind = KINDS[name]
        client = f"{library}-{name}{tag}"
        job = {
            "client": client,
            "targets": ",".join(rng.sample(targets, min(len(targets), rng.randint(2, 4)))),
            "seed": rng.randrange(1 << 30),
            "codec": codecs[at % len(codecs)],
            "acks": kind.acks,
            "idempotent": kind.idempotent,
            "transactional": client if kind.is_transactional else "",
            "retries": kind.retries or library in ALWAYS_TRY_AGAIN,
            "bursts": rng.choice(BURSTS),
            "random": rng.random() < 0.3,
            "linger_ms": rng.choice((0, 1, 5, 20)),
            "limit": limit,
        }
        jobs.append(Job(**{**job, **options}))
    return jobs
