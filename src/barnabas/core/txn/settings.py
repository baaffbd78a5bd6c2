"""The settings of the transaction machine, as one value. Times are milliseconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Kafka's defaults; the host fills in what the broker is set to."""

    max_timeout_ms: int = 900_000  # transaction.max.timeout.ms
    #: transaction.abort.timed.out.transaction.cleanup.interval.ms
    abort_check_interval_ms: int = 10_000
    id_expiration_ms: int = 604_800_000  # transactional.id.expiration.ms
    #: transaction.remove.expired.transaction.cleanup.interval.ms
    expiration_check_interval_ms: int = 3_600_000
    #: How long to wait before what could not be written is tried again, twice as long each time (constants of ours).
    retry_ms: int = 100
    retry_max_ms: int = 2_000
