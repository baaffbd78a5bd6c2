"""One PostgreSQL for all tests of the folder."""

import pytest
from postgres_kit import postgres


@pytest.fixture(scope="session")
def postgres_url():
    """How to connect to it."""
    with postgres() as url:
        yield url
