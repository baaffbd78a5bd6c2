"""The simulated world: the same ports as `runtime`, driven by one seed, with faults and checkers.

`world` time and chance · `disk`, `coordination`, `network` the ports · `machine` a node that crashes and comes back ·
`client`, `producer`, `consumer`, `admin` who talks to it · `groups`, `group_client`, `group_member`, `consumer_member` the
consumer groups · `faults` what goes wrong · `checkers`, `group_checkers` what must hold · `run` one
seed from its start to its verdict. `python -m barnabas.sim --seed 123` replays a seed.
"""
