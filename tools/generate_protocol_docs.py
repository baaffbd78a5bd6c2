"""Write docs/protocol.md: which APIs are served in which versions, beside those of Apache Kafka 4.4.

python tools/generate_protocol_docs.py           write the file
python tools/generate_protocol_docs.py --check   only say whether it is current
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.broker.dispatch import TABLE, Api, cluster_table
from barnabas.wire.messages.index import APIS

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

TARGET = Path(__file__).parents[1] / "docs/protocol.md"

#: Key -> lowest and highest version in the ApiVersions answer of a Kafka 4.4 broker.
KAFKA = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4),
    13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 5), 19: (2, 7), 20: (1, 6), 21: (0, 2),
    22: (0, 5), 23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 2), 28: (0, 6), 29: (1, 3), 30: (1, 3),
    31: (1, 3), 32: (1, 4), 33: (0, 2), 34: (1, 2), 35: (1, 5), 36: (0, 2), 37: (0, 3), 38: (1, 3), 39: (1, 2),
    40: (1, 2), 41: (1, 3), 42: (0, 3), 43: (0, 2), 44: (0, 1), 45: (0, 1), 46: (0, 0), 47: (0, 0), 48: (0, 1),
    49: (0, 1), 50: (0, 0), 51: (0, 0), 57: (0, 2), 60: (0, 2), 61: (0, 0), 65: (0, 0), 66: (0, 2), 68: (0, 1),
    69: (0, 1), 71: (0, 0), 72: (0, 0), 74: (0, 1), 75: (0, 0), 76: (1, 1), 77: (1, 1), 78: (1, 2), 79: (1, 2),
}  # fmt: skip

HEAD = """# The protocol

Generated from the table in `src/barnabas/broker/dispatch.py` by `tools/generate_protocol_docs.py`; do not edit.

Barnabas speaks Kafka's wire protocol. An API is told to clients (ApiVersions) only once it is served; a request for
another API or version ends its connection, as in Kafka. The last column is what a broker of Apache Kafka 4.4 tells.
That the answers are the same is shown by `tests/compat/test_same_answers.py`, which sends the same requests to both.
"""
NOTES = """
Produce is told from version 0 and served from 3, as Kafka 4 does: told from 3, librdkafka 2.0 to 2.6 would silently send
gzip and lz4 uncompressed.
"""
IN_CLUSTERS = """
## Served by members of a cluster only

A broker without ZooKeeper does not tell them. Those that Kafka 4.4 does not have are what brokers of a ZooKeeper cluster say to each
other, as in Kafka 3.9.
"""
ABSENT = """
## Not served yet

Access control, quotas, telemetry and share groups: a client sees that they are not there.
"""
TABLE_HEAD = ["| Key | API | Told | Served | Kafka 4.4 |", "|---:|---|---|---|---|"]


def document() -> str:
    """Give the whole text."""
    in_clusters = cluster_table()
    served = {**TABLE, **in_clusters}
    absent = [f"{APIS[key].name} ({key})" for key in sorted(KAFKA) if key not in served]
    parts = [HEAD, *table(TABLE), NOTES + IN_CLUSTERS, *table(in_clusters, but=TABLE)]
    return "\n".join([*parts, ABSENT, ", ".join(absent) + ".\n"])


def table(apis: Mapping[int, Api], but: Container[int] = ()) -> list[str]:
    """Give the lines of a table."""
    return [*TABLE_HEAD, *(row(apis[key]) for key in sorted(apis) if key not in but)]


def row(api: Api) -> str:
    """Give one line of a table."""
    told = versions(api.advertised_min, api.max_version)
    served = versions(api.min_version, api.max_version)
    kafka = versions(*KAFKA[api.key]) if api.key in KAFKA else "no"
    return f"| {api.key} | {api.name} | {told} | {served} | {kafka} |"


def versions(first: int, last: int) -> str:
    """Give a range of versions."""
    return str(first) if first == last else f"{first}-{last}"


def main() -> int:
    """Write the file, or compare it."""
    text = document()
    if "--check" not in sys.argv:
        TARGET.write_text(text)
        return 0
    current = TARGET.exists() and TARGET.read_text() == text
    print("docs/protocol.md is current" if current else "run tools/generate_protocol_docs.py")
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main())
