"""The controller of a cluster as a pure machine: see `controller.py`."""
