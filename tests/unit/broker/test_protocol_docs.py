"""docs/protocol.md is generated: it says what the table of APIs says."""

import generate_protocol_docs
from generate_protocol_docs import KAFKA

from barnabas.broker.dispatch import TABLE, advertised


def test_the_written_file_is_current():
    written = generate_protocol_docs.TARGET.read_text()
    assert written == generate_protocol_docs.document(), "run tools/generate_protocol_docs.py"


def test_what_is_told_is_what_kafka_tells():
    assert {key: (first, last) for key, first, last in advertised()} == {
        key: KAFKA[key] for key in TABLE
    }
