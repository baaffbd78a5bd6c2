"""What all tests share: property tests try the same examples in every run, so that a failure comes back, and take the time that they take.

Tests run the source, so that they can put something into the place of a method; what they start runs the compiled copy, where
$BARNABAS_COPY says that there is one (docs/adr/0010).

Ctrl-C counts in tests and in what they start also where a shell runs them in the background, which has it ignored.

With BARNABAS_EXPLORE=1 they try new ones: do that beside a change to what they test, and keep what is found as a
unit test.
"""

import os
import signal

from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile("explore" if os.environ.get("BARNABAS_EXPLORE") else "same")

pytest_plugins = ["worker_kit", "zookeeper_kit"]


def pytest_configure(config):
    """Only where tests are run: workers are started by a process that is none of them."""
    copy = os.environ.get("BARNABAS_COPY")
    if copy and (hasattr(config, "workerinput") or not config.getoption("numprocesses", None)):
        paths = [copy, os.environ.get("PYTHONPATH")]
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
