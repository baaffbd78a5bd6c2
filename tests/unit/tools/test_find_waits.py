"""What counts as a wait, and what is said of a page that does not fit."""

import find_waits
import pytest

SOURCE = """
from functools import partial

def handle(call) -> Task[None]:
    yield from first(call)
    yield call.node.changes.take

def rows() -> Iterator[int]:
    yield 1

class Office:
    __slots__ = ("state",)

    @property
    def is_open(self):
        return True

    def start(self):
        self.world.timers.call_at(5, self.on_time)
        self.world.background.run(lambda: 1, self._done)
        self.on_lost = self._done
        job = partial(self._done, 1)
        self.world.channel.ask(job)
        node.waiting.add(self.state)

    def on_time(self):
        return sorted(self.names, key=lambda name: -name)

    def _done(self, state):
        tell(state, self.state, self.is_open)

    def until(self):
        def begin(done):
            done(None)

        return begin
"""


@pytest.fixture
def found(tmp_path):
    """The waits of a small package."""
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "office.py").write_text(SOURCE)
    return find_waits.find(tmp_path)


def test_yields_of_tasks_and_functions_that_are_given_away_are_waits(found):
    assert {name: len(waits) for name, waits in found.items()} == {
        "broker.office.handle": 2,
        "broker.office.Office.start": 5,
        "broker.office.Office.until": 1,
    }


def test_a_place_that_the_page_lacks_is_given_as_a_row(found):
    missing, wrong = find_waits.compare(found, "")
    assert "| `broker.office.handle` | 2 | | | |" in missing
    assert len(missing) == 3
    assert not wrong


def test_a_count_that_differs_a_place_that_is_gone_and_a_row_without_a_verdict_are_told(found):
    page = "\n".join([
        "| `broker.office.handle` | 1 | its turn | nothing | - |",
        "| `broker.office.Office.start` | 5 | the clock | nothing | |",
        "| `broker.office.Office.until` | 1 | nothing | - | - |",
        "| `broker.office.gone` | 1 | nothing | - | - |",
    ])  # fmt: skip
    missing, wrong = find_waits.compare(found, page)
    assert not missing
    assert wrong == [
        "broker.office.handle waits 2 times; 1 are listed",
        "broker.office.Office.start is listed without a verdict",
        "broker.office.gone is listed and waits no more",
    ]
