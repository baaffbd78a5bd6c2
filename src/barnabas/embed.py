"""A broker inside this process, on a thread of its own: for tests and for trying things.

with barnabas.Broker() as broker:
    Producer({"bootstrap.servers": broker.bootstrap})
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from typing import TYPE_CHECKING

from barnabas.model.config.broker_config import BrokerConfig
from barnabas.runtime.assembly import RunningBroker

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self


class Broker:
    """A real broker on a free port of 127.0.0.1 with storage of its own, gone when it is closed.

    `settings` are broker settings by Kafka's names. With `data_dir` the data stays.
    """

    def __init__(
        self,
        *,
        data_dir: str | None = None,
        port: int = 0,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Start it and wait until clients can connect. ConfigProblem or OSError if that cannot be."""
        self._temporary = None if data_dir else tempfile.mkdtemp(prefix="barnabas-")
        texts = {name: _text(value) for name, value in (settings or {}).items()}
        texts.setdefault("listeners", f"PLAINTEXT://127.0.0.1:{port}")
        texts["log.dirs"] = data_dir or str(self._temporary)
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        try:
            self._broker = RunningBroker(BrokerConfig(texts))
        except BaseException:
            self._remove_storage()
            raise
        self._thread = threading.Thread(target=self._run, name="barnabas-broker", daemon=True)
        self._thread.start()
        self._ready.wait()
        self._raise_failure()

    def _run(self) -> None:
        try:
            self._broker.run(self._ready.set)
        except BaseException as problem:  # noqa: BLE001  (an edge: the owner's thread raises it)
            self._failure = problem
        finally:
            self._ready.set()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            self.close()
            raise self._failure

    @property
    def bootstrap(self) -> str:
        """Address for a client's `bootstrap.servers`."""
        return _address(*self._broker.addresses[0][1:])

    def bootstrap_of(self, listener: str) -> str:
        """Address of one listener by its name, such as SASL_SSL."""
        found = {name: (host, port) for name, host, port in self._broker.addresses}
        return _address(*found[listener.upper()])

    @property
    def host(self) -> str:
        """Host of the first listener."""
        return self._broker.addresses[0][1]

    @property
    def port(self) -> int:
        """Port of the first listener."""
        return self._broker.addresses[0][2]

    def close(self) -> None:
        """Stop it cleanly; temporary storage is removed. Harmless if closed."""
        self._broker.stop(discard=self._temporary is not None)
        self._thread.join()
        self._remove_storage()

    def _remove_storage(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> Self:
        """It runs already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop it."""
        self.close()


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
