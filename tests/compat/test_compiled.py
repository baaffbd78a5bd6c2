"""What brokers run in these tests is the compiled copy, unless somebody wants the source or there is no compiler."""

import os
import subprocess
import sys
from pathlib import Path

import compile as tool
import pytest


def test_brokers_run_the_compiled_copy():
    if os.environ.get("BARNABAS_COPY") != str(tool.TARGET):
        pytest.skip("the source runs: COMPILED=0, or not by make")
    if missing := tool.what_is_missing():
        pytest.skip(f"there is no {missing}")
    code = "import barnabas.runtime.loop as a, barnabas.storage.log as b; print(a.__file__, b.__file__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for path in done.stdout.split():
        assert Path(path).is_relative_to(tool.TARGET)
        assert path.endswith(".so")
