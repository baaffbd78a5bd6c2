"""The log on an injected Disk: segments, indexes, recovery and the small files beside them."""
