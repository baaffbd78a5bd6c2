"""Every transcript comes out as it is written.

The first word of a file's name chooses the stage: `classic_*.txt` is played by `classic_stage.STAGE`. With
BARNABAS_UPDATE_SCENARIOS=1 the transcripts are written anew; read the difference before you keep it.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*/*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_the_story_is_told_as_written(path):
    kind = path.stem.partition("_")[0]
    stage = importlib.import_module(f"scenarios.{kind}_stage").STAGE()
    written = path.read_text()
    played = stage.play(written)
    if os.environ.get("BARNABAS_UPDATE_SCENARIOS"):
        path.write_text(played)
    else:
        assert played == written
