"""A PostgreSQL server for tests; without one they are skipped."""

import contextlib

import postgres_server
import psycopg
import pytest


@contextlib.contextmanager
def postgres():
    """Start a server; yields the words to connect with."""
    if postgres_server.programs() is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    with postgres_server.postgres() as url:
        yield url


def rows(url, statement, *values):
    """Ask once."""
    with psycopg.connect(url) as connection:
        return connection.execute(statement, values).fetchall()
