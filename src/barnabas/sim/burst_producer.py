"""A simulated producer that sends one record per request, in bursts, at the same moments as others like it.

Job: requests that look alike on several connections: they open lanes (`broker/repeats.py`) and come in the same turns. Now and then comes a record
that is so long once decompressed that the broker opens it in the background. Must not know what the node makes of them.
"""

from __future__ import annotations

from typing import Final

from barnabas.sim.producer import Batch, Producer
from barnabas.sim.world import MS, START_MS

#: All begin a burst at multiples of this.
TICK_US: Final = 40 * MS
#: How often another batch is of the same burst.
MORE_LIKELIHOOD: Final = 0.6
#: How often a record is opened in the background, and how long it is for that.
LONG_LIKELIHOOD: Final = 0.3
LONG_BYTES: Final = 270_000


class BurstProducer(Producer):
    """See the module."""

    def _make_batches(self) -> None:
        now_us = self.scheduler.now_us
        while self._batches_left and self._next_batch_us <= now_us:
            self._batches_left -= 1
            if self.chance.random() >= MORE_LIKELIHOOD:
                ticks = self.chance.randint(1, 4)
                self._next_batch_us = (now_us // TICK_US + ticks) * TICK_US
            (key,) = self._lanes
            values = [self._new_value()]
            self._lanes[key].queue.append(Batch(values, START_MS + now_us // MS))
            self.history.on_made(key, self.name, values)

    def _new_value(self) -> bytes:
        self._number += 1
        # Records of all such producers have the same lengths.
        padding = LONG_BYTES if self.chance.random() < LONG_LIKELIHOOD else 0
        return f"{self.name}:{self._number + 1000}:".encode() + b"x" * padding
