"""What brokers run in these tests is the compiled copy, unless somebody wants the source or there is no compiler."""

import os
import subprocess
import sys
from pathlib import Path

import compile as tool
import pytest


def test_brokers_run_the_compiled_copy():
    copy = os.environ.get("BARNABAS_COPY")
    if not copy:
        pytest.skip(f"the source runs: {tool.what_is_missing() or 'COMPILED=0, or not by make'}")
    code = "import barnabas.runtime.loop as a, barnabas.storage.log as b; print(a.__file__, b.__file__, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for path in done.stdout.splitlines():
        assert Path(path).is_relative_to(copy)
        assert path.endswith(".so")
