"""What all tests share: property tests try the same examples in every run, so that a failure comes back, and take the time that they take.

With BARNABAS_EXPLORE=1 they try new ones: do that beside a change to what they test, and keep what is found as a
unit test.
"""

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile("explore" if os.environ.get("BARNABAS_EXPLORE") else "same")

pytest_plugins = ["worker_kit", "zookeeper_kit"]
