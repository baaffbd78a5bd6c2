"""Whom a machine's reply is for: what `shard_host` hands to a machine with a request, and gets back with the reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Done


class Held:
    """The ticket of one request: who asked, and how to make the answer of the machine's reply."""

    __slots__ = ("call", "is_late", "respond", "response")

    def __init__(self, call: Call, respond: Callable[[Call, Any], Any]) -> None:
        """Hold a request until its reply comes."""
        self.call = call
        self.respond = respond
        self.response: Any = None
        #: The handler has returned: the link gets the answer.
        self.is_late = False

    def answer(self, reply: Any) -> None:  # noqa: ANN401
        """Give the reply to whoever asked."""
        call = self.call
        if reply.__class__ is ErrorCode:
            response = call.node.refusal(call, reply)
        else:
            response = self.respond(call, reply)
        if self.is_late:
            call.node.answer_late(call, response)
        else:
            self.response = response


class Asked:
    """The ticket of a question that a task asks."""

    __slots__ = ("done",)

    def __init__(self, done: Done) -> None:
        """Remember who is to go on."""
        self.done = done

    def answer(self, reply: Any) -> None:  # noqa: ANN401
        """Let the task go on with the reply; an error code where another kind of reply may be expected is raised in it."""
        if reply.__class__ is ErrorCode and reply:
            self.done(None, KafkaError(reply, ""))
        else:
            self.done(reply, None)
