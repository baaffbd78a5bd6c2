"""Planted by its import: a batch that was opened in the background opens a lane when it comes back, and by then other requests lie in the memory of its frame.

Requests that look like the other's then go into the partition of this one.
"""

from barnabas.broker import produce_lane, repeats
from barnabas.broker.node import Node
from barnabas.broker.receive_memory import TURN_BYTES, TurnMemory


def may_open(call):
    """Do not ask whether the handler has waited."""
    return call.denied is None and call.bill is None


def on_request(self, link, frame):
    """Leave the view of the frame to whoever has it."""
    return self._on_request(link, frame)


def take_back(self):
    """Use the memory of a turn again, whoever still reads it."""
    self.position = 0
    self.view = memoryview(self._memory)[:TURN_BYTES]
    return True


repeats.may_open = produce_lane.may_open = may_open
Node.on_request = on_request
TurnMemory.take_back = take_back
