"""The stage for controllers. The store and the brokers do at once what they are asked, and show it; `hold` lets it wait for `step`.

> brokers 1 2 3
> create t 1,2,3 1,3,2       one list of replicas for each partition
> kill 1 2 | start 1 | shutdown 1 | fail 1 t-0 (its directory) | mend 1 t-0
> insync t-0 1,2             the leader writes another in-sync set
> caughtup t-0               every replica that follows gets in sync
> reassign t-0 4,5 | cancel t-0 | elect preferred|unclean t-0 | balance | delete t | unclean t yes|no
> hold | step | go           one write or one order at a time | all of them
> controller dies            another one begins with what is in the store
> state
"""

from __future__ import annotations

from controller_kit import Host, show_assignment
from scenarios.stage import Stage

from barnabas.core.controller.view import ElectionType
from barnabas.model.ids import TopicPartition


class ControllerStage(Stage):
    """A cluster in small."""

    def __init__(self):
        self.seen = 0
        self.is_held = False

    def command(self, line):
        said = super().command(line)
        if not self.is_held:
            self.host.run()
        return [*said, *self.news()]

    def news(self):
        """States, assignments and deletions of logs since the last look."""
        new = self.host.events[self.seen :] if hasattr(self, "host") else []
        self.seen += len(new)
        return new

    def do_brokers(self, *brokers):
        self.host = Host(*map(int, brokers))
        return []

    def do_create(self, name, *lists):
        self.host.create(name, *map(replicas, lists))
        return []

    def do_kill(self, *brokers):
        self.host.kill(*map(int, brokers))
        return []

    def do_start(self, *brokers):
        self.host.start(*map(int, brokers))
        return []

    def do_shutdown(self, broker):
        host, broker = self.host, int(broker)
        code, effects = host.controller.on_shutdown_request(broker, host.live[broker].epoch)
        host.do(effects)
        host.run()
        left = ", ".join(map(str, host.controller.view.led_by(broker)))
        return [*self.news(), f"{broker}: {code.name}, still leads {left or 'nothing'}"]

    def do_fail(self, broker, id_):
        self.host.do(self.host.controller.on_replica_errors(int(broker), [place(id_)]))
        return []

    def do_mend(self, broker, id_):
        self.host.do(self.host.controller.on_replica_errors(int(broker), [], [place(id_)]))
        return []

    def do_insync(self, id_, in_sync):
        assert self.host.change_in_sync(place(id_), replicas(in_sync))
        return []

    def do_caughtup(self, id_):
        self.host.catch_up(place(id_))
        return []

    def do_reassign(self, id_, target):
        return self._ask(self.host.controller.on_reassign({place(id_): replicas(target)}))

    def do_cancel(self, id_):
        return self._ask(self.host.controller.on_reassign({place(id_): None}))

    def do_elect(self, kind, *ids):
        wanted = [place(id_) for id_ in ids] or None
        return self._ask(self.host.controller.on_elect(ElectionType[kind.upper()], wanted))

    def do_balance(self):
        self.host.do(self.host.controller.on_imbalance_check())
        return []

    def do_delete(self, name):
        self.host.delete(name)
        return []

    def do_unclean(self, name, word):
        self.host.unclean[name] = word == "yes"
        self.host.is_cautious = False
        self.host.do(self.host.controller.on_topic_settings(name, word == "yes"))
        return []

    def do_hold(self):
        self.is_held = True
        return []

    def do_step(self):
        host = self.host
        busy = sorted(broker for broker, lane in host.lanes.items() if lane)
        if host.writes:
            host.write()
        elif busy:
            host.deliver(busy[0])
        return []

    def do_go(self):
        self.is_held = False
        return []

    def do_controller(self, _dies):
        self.host.take_office()
        return [f"controller epoch {self.host.epoch}"]

    def do_state(self):
        host = self.host
        return [
            f"{name}-{index} on {show_assignment(assignment)}: {host.state(TopicPartition(name, index))}"
            for name, (_, _, partitions) in sorted(host.topics.items())
            for index, assignment in sorted(partitions.items())
        ]

    def _ask(self, answer):
        verdicts, effects = answer
        self.host.do(effects)
        return [f"{id_}: {verdict.code.name}" for id_, verdict in verdicts.items()]


def replicas(text):
    return tuple(map(int, text.split(",")))


def place(text):
    topic, _, index = text.rpartition("-")
    return TopicPartition(topic, int(index))


STAGE = ControllerStage
