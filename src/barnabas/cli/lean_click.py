"""click, imported without `inspect` and `uuid`, which it hardly uses: a sixth of what a command takes to start that needs neither.

Job: import it with stand-ins in their places. Must not be noticed by anybody else: when click is there they are out of `sys.modules`
again, and what click asks of them later comes from the real ones.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _StandIn(ModuleType):
    """A module until something of it is used that is not here."""

    def leave(self) -> None:
        """Make room for the real one."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


class _Inspect(_StandIn):
    """Of `inspect`, what click calls for every option."""

    def cleandoc(self, text: str) -> str:
        """Put the help of an option straight."""
        if "\n" in text or "\t" in text:
            return str(self.__getattr__("cleandoc")(text))
        return text.lstrip()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        self.leave()
        import inspect

        return getattr(inspect, name)


class _Uuid(_StandIn):
    """Of `uuid` nothing."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        self.leave()
        import uuid

        return getattr(uuid, name)


def import_click() -> None:
    """Import it, unless it is there."""
    inspect, uuid = _Inspect("inspect"), _Uuid("uuid")
    uuid.UUID = object  # type: ignore[attr-defined]  # click names it in the head of a class
    for each in (inspect, uuid):
        sys.modules.setdefault(each.__name__, each)
    try:
        import click  # noqa: F401
    finally:
        inspect.leave()
        uuid.leave()
    del uuid.UUID  # from now on the real one
