"""The benchmark: Barnabas and Apache Kafka driven by the same clients in one run, told as ratios.

`python -m bench` (or `make bench`) runs it. Modules, in the order in which a run meets them: `build` gets the clients,
`brokers` starts and stops, `admin` and `frames` prepare topics and requests, `clients` drives, `measure` watches the
processes and the machine, `workloads` says what is run, `plan` repeats it in alternating order, `figures` does the
arithmetic, `report`, `plots` and `history` tell. Nothing here is imported by Barnabas itself.
"""
