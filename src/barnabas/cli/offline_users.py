"""Users of a broker that does not run, in the store of its data directory.

One job: write credentials where the broker finds them at its start; what else stands at a user's place stays.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from barnabas.broker import entity_config, users
from barnabas.cli.failure import Failure
from barnabas.cli.offline import take_lock
from barnabas.core.sasl.scram_credential import credential_text
from barnabas.ports import Create, SetData
from barnabas.runtime.assembly import STORE_FILE
from barnabas.runtime.offline_store import read_store, write_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.core.sasl.scram_credential import ScramCredential


def write_user(
    data_dir: str, name: str, credentials: Mapping[str, ScramCredential | None]
) -> list[str]:
    """Set or, with None, take away what a user logs in with; returns the mechanisms that are left. Failure if a broker runs there."""
    try:
        os.makedirs(data_dir, exist_ok=True)
        lock = take_lock(data_dir)
    except OSError as problem:
        raise Failure(f"cannot use {data_dir}: {problem.strerror}") from None
    try:
        return _write(os.path.join(data_dir, STORE_FILE), name, credentials)
    finally:
        lock.release()


def _write(path: str, name: str, credentials: Mapping[str, ScramCredential | None]) -> list[str]:
    place = f"/config/{users.KIND}/{entity_config.sanitized(name)}"
    found = read_store(path, place)
    texts = {key: text for key, text in entity_config.read(found).items() if key not in credentials}
    texts |= {key: credential_text(one) for key, one in credentials.items() if one is not None}
    data = json.dumps({"version": 1, "config": texts}, separators=(",", ":")).encode()
    write_store(path, [Create(place, data) if found is None else SetData(place, data)])
    return sorted(texts)
