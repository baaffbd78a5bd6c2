"""Processes and threads that tests wait for: what does not come in time is ended and told, for nothing may wait for ever."""

import contextlib
import subprocess
import threading

#: Also for a start that has much to recover, on a machine with much else to do.
PATIENCE_S = 120
#: Tests write records of years ago, which a look, the first or one of those after it, would take from whoever reads them then.
NO_RETENTION = (
    "log.initial.task.delay.ms=86400000",
    "log.retention.check.interval.ms=86400000",
)


def with_no_retention(settings):
    """Settings of a broker, NAME=VALUE, with those above unless they say otherwise."""
    named = {line.partition("=")[0] for line in settings}
    return [*(each for each in NO_RETENTION if each.partition("=")[0] not in named), *settings]


@contextlib.contextmanager
def killed_after(process, patience_s=PATIENCE_S):
    """Whoever reads from the process meanwhile sees its end then."""
    timer = threading.Timer(patience_s, process.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def ready_line(process):
    """The first line that it prints and that starts with `ready`; None if it ends, or has to be killed, before that."""
    with killed_after(process):
        return next((line for line in process.stdout if line.startswith("ready")), None)


@contextlib.contextmanager
def started(command, **options):
    """A process that is not left behind, whatever the test finds."""
    with subprocess.Popen(command, **options) as process:
        try:
            with killed_after(process):
                yield process
        finally:
            process.kill()


def end_thread(thread, what, patience_s=PATIENCE_S):
    """Wait for one that was told to stop. It is to be a daemon: one that hangs must not hold up the end of all tests."""
    assert thread.daemon
    thread.join(patience_s)
    assert not thread.is_alive(), f"{what} hangs"
