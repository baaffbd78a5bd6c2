"""The transaction coordinator as a pure machine: one `TransactionShard` per partition of `__transaction_state`.

Who hosts it does this:

| what happens                  | call                                               | then                                   |
|-------------------------------|----------------------------------------------------|----------------------------------------|
| a request                     | `init_producer_id`, `add_partitions`, `end`, …     | carry the `Result` out                 |
| a deadline, a finished load   | `on_time`, `on_loaded`                             | carry each `Result` out                |
| markers were tried            | `on_markers(markers, codes, now_ms, wall_ms)`      | carry the `Result` out                 |
| a record of the log           | `replay(record)`                                   | nothing                                |

To carry a result out: append its records as one batch and replay them (or, if that fails, `on_append_failed`), and when they
are as durable as the log promises, give its replies to their tickets and write its markers to the partitions they name. A
reply with an error code of its own is a value of `requests`; a bare `ErrorCode` refuses the whole request.

The host fills in what the machine does not know: the coordinator epoch of a marker is the leader epoch of the shard's partition.
"""
