"""Brokers with a fault that was planted: they run the source, whatever others run."""

import atexit
import functools
import os

from chaos.wire_kit import BROKER_MODULES, BrokerProcess
from fork_kit import ForkServer


@functools.cache
def _planting_server(name):
    """One that forks brokers of the source in which this fault is, or none."""
    copy = os.environ.get("BARNABAS_COPY")
    paths = [
        path
        for path in os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if path not in ("", copy)
    ]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    made = ForkServer((*BROKER_MODULES, f"oracle.plant_{name}"), environ)
    atexit.register(made.close)
    return made


class PlantedBroker(BrokerProcess):
    """`barnabas up` with the fault of this name."""

    def __init__(self, name, data_dir, **options):
        self._fault = name
        super().__init__(data_dir, **options)

    def _server(self):
        return _planting_server(self._fault)
