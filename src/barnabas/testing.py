"""The pytest plugin: a `broker` fixture for any project that has Barnabas installed.

def test_orders(broker):
    producer = Producer({"bootstrap.servers": broker.bootstrap})
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.embed import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Start a broker for this test alone, on a free port, with storage that is removed afterwards."""
    from barnabas.embed import Broker

    with Broker() as running:
        yield running
