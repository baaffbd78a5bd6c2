"""One module per API, named as Kafka names it: `handle` serves a request, `refuse` answers it with an error. None leans on another."""
