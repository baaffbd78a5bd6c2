"""Write docs/protocol.md: which APIs are served in which versions, beside those of Apache Kafka 4.4.

python tools/generate_protocol_docs.py           write the file
python tools/generate_protocol_docs.py --check   only say whether it is current
"""

from __future__ import annotations

import sys
from pathlib import Path

from barnabas.broker.dispatch import TABLE
from barnabas.wire.messages.index import APIS

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
ABSENT = """
## Not served yet

Groups, transactions, access control, quotas, reassignments and share groups: a client sees that they are not there.
"""


def document() -> str:
    """Give the whole text."""
    lines = ["| Key | API | Told | Served | Kafka 4.4 |", "|---:|---|---|---|---|"]
    lines += [row(key) for key in sorted(TABLE)]
    absent = [f"{APIS[key].name} ({key})" for key in sorted(KAFKA) if key not in TABLE]
    return "\n".join([HEAD, *lines, NOTES + ABSENT, ", ".join(absent) + ".\n"])


def row(key: int) -> str:
    """Give one line of the table."""
    api = TABLE[key]
    told = versions(api.advertised_min, api.max_version)
    served = versions(api.min_version, api.max_version)
    return f"| {key} | {api.name} | {told} | {served} | {versions(*KAFKA[key])} |"


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
