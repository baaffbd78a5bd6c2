import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
from bench import history, plots, report
from bench.figures import BARNABAS, KAFKA, Figure, Result
from bench.measure import Noise
from bench.plan import Outcome

ABOUT = history.Circumstances(
    "2026-01-02 03:04 UTC", "abc1234", "1.0", "4.3.1", "2.12.1", "a machine", "short"
)


def outcome(ours=30.0, theirs=20.0):
    figures = [
        Figure("w4.c1d1.rate", "requests/s, 1 connection", "1/s", True, 1.0),
        Figure("w4.c1d1.p50", "… latency p50", "µs", detail=True),
        Figure("w11.start", "start", "s", False, 0.2),
        Figure("w8.lz4.of-none", "lz4 of none", "", False, 1.1, own=True),
        *(Figure(f"w3.linger.{q}", f"end to end, {q}", "µs") for q in ("p50", "p99", "p999")),
        *(Figure(f"scaling.partitions.{n}.cpu", f"{n}", "s/million") for n in (1, 100, 1000)),
    ]
    found = Outcome(seconds=61)
    for figure in figures:
        samples = {BARNABAS: [ours, ours + 1, ours - 1], KAFKA: [theirs]}
        found.results[figure.key] = Result(figure, samples)
    found.noise = {"w4": [Noise(0.1, 0.0), Noise(0.3, 0.02)], "w11": []}
    return found


def test_the_table_names_ratio_target_and_verdict():
    lines = report.table(outcome().results.values(), details=True).splitlines()
    (row,) = [line for line in lines if line.startswith("requests/s")]
    assert row.split() == (
        [
            "requests/s,",
            "1",
            "connection",
            "30.0",
            "(29.0..31.0)",
            "20.0",
            "1/s",
            "1.50x",
            "≥",
            "1.0x",
            "met",
        ]
    )
    (row,) = [line for line in lines if line.startswith("start")]
    assert row.endswith("MISSED")
    assert lines.index("W3  " + report.TITLES["w3"]) < lines.index("W4  " + report.TITLES["w4"])


def test_details_can_be_left_out():
    results = outcome().results.values()
    assert "latency p50" in report.table(results, details=True)
    assert "latency p50" not in report.table(results, details=False)


def test_columns_stand_under_each_other():
    lines = report.aligned(
        [("a", "1", "22", "s", "", "", ""), ("bbb", "333", "4", "s", "", "", "")]
    )
    assert lines == ["a      1  22  s", "bbb  333   4  s"]


def test_the_verdict_names_what_is_missed():
    text = report.verdicts(outcome().results.values())
    assert text == "1 of 3 targets met; missed: w11.start, w8.lz4.of-none"


def test_noise_is_told_as_shares():
    assert report.noise_text(outcome()) == (
        "of the machine's time, others used 20.0% (at most 30.0%), the host took 1.0% (at most 2.0%)"
    )
    assert report.noise_text(Outcome()) == "no noise was measured"


def test_the_page_keeps_what_is_around_its_marks():
    page = f"# Title\n{report.BEGIN}\nold\n{report.END}\nrest\n"
    found = outcome()
    found.failures.append("w6 broke · Barnabas: first line\nmore")
    part = report.generated(found, ABOUT, [("A plot", "benchmarks/a.svg")])
    new = report.replaced(page, part)
    assert new.startswith("# Title\n")
    assert new.endswith("rest\n")
    assert "old" not in new
    for words in (
        "abc1234",
        "2026-01-02",
        "a machine",
        "![A plot](benchmarks/a.svg)",
        "| W4 | 20.0%",
    ):
        assert words in new
    assert "- failed: w6 broke · Barnabas: first line\n" in new
    assert report.replaced(new, part) == new
    with pytest.raises(ValueError, match="marks"):
        report.replaced("# Title\n", part)


def test_the_real_page_has_the_marks():
    assert report.replaced(report.DOCS.read_text(), f"{report.BEGIN}\n{report.END}")


def test_plots_are_documents_with_a_point_for_each_value():
    made = plots.all_plots(outcome().results)
    assert set(made) == {"ratios", "latency", "partitions-cpu"}
    for _title, document in made.values():
        ElementTree.fromstring(document)
    assert made["partitions-cpu"][1].count("<circle") == 6


def test_bars_point_to_the_better_side():
    faster = Result(Figure("a", "a", "", True, 1.0), {BARNABAS: [4.0], KAFKA: [1.0]})
    cheaper = Result(Figure("b", "b", "", False, 1.0), {BARNABAS: [1.0], KAFKA: [4.0]})
    beyond = Result(Figure("c", "c", "", False, 1.0), {BARNABAS: [100.0], KAFKA: [1.0]})
    assert plots.advantage(faster) == plots.advantage(cheaper) == 4
    assert plots.advantage(beyond) == 1 / plots.SPAN


def test_history_finds_the_last_run_of_the_same_kind(tmp_path):
    path = tmp_path / "history.jsonl"
    assert history.last_like(ABOUT, path) is None
    for about in (ABOUT, ABOUT._replace(commit="second"), ABOUT._replace(scale="full")):
        history.append(history.line(outcome(), about), path)
    before = history.last_like(ABOUT, path)
    assert before["commit"] == "second"
    assert before["ratios"]["w4.c1d1.rate"] == 1.5
    assert before["barnabas"]["w4.c1d1.rate"] == 30
    assert history.last_like(ABOUT._replace(machine="another"), path) is None
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 3


def test_changes_name_what_got_worse_or_better():
    before = history.line(outcome(), ABOUT)
    assert history.changes(outcome().results, before) == []
    assert history.changes(outcome(ours=31).results, before) == []
    assert history.changes(outcome(ours=15).results, before) == [
        "WORSE: w4.c1d1.rate  1.50x → 0.75x",
        "better: w11.start  1.50x → 0.75x",
        "better: w8.lz4.of-none  1.50x → 0.75x",
    ]
    assert history.changes(outcome().results, None) == []


def test_a_missed_target_needs_a_reason_and_a_reason_a_missed_target():
    results = outcome().results.values()
    page = f"{report.REASONS}\n\n- `w11.start`, `w8.lz4.of-none`: slow.\n\n## Next\n- `w4.c1d1.rate`: no\n"
    assert report.explained(page) == {"w11.start", "w8.lz4.of-none"}
    assert report.unexplained(page, results) == []
    assert report.unexplained(page.replace("w11.start", "w4.c1d1.rate"), results) == [
        "missed, and no reason is given: w11.start",
        "met, but a reason is given for missing it: w4.c1d1.rate",
    ]


def test_the_real_page_gives_a_reason_for_everything_that_it_calls_missed():
    page = report.DOCS.read_text()
    said = re.findall(r"\*\*\d+ of \d+ targets met(?:; missed: ([^*]+))?\.\*\*", page)
    assert said, "the page does not say which targets are met"
    missed = {key for keys in said for key in keys.split(", ")} - {""}
    assert missed - report.explained(page) == set()


def test_a_run_fills_the_part_that_is_its_own_or_none():
    assert report.part_of({"w13"}, compiled=True) == "w13"
    assert report.part_of({"w4"}, compiled=True) == ""
    assert report.part_of({"w4"}, compiled=False) == "source"
    assert report.part_of({"w13"}, compiled=False) == ""
    assert report.part_of(set(), compiled=True) == ""


def test_a_part_of_the_page_is_written_alone():
    page = report.DOCS.read_text()
    for part in (*report.PARTS, report.SOURCE):
        new = report.replaced(page, report.generated(outcome(), ABOUT, [], part), part)
        begin, end = report.marks(part)
        assert "abc1234" in new.partition(begin)[2].partition(end)[0]
        assert new.partition(begin)[0] == page.partition(begin)[0]
        assert new.partition(end)[2] == page.partition(end)[2]


def test_the_plots_of_a_part_leave_that_of_all_ratios_alone(tmp_path):
    results = outcome().results
    plots.write_all(results, tmp_path, of_part="scaling")
    assert not (tmp_path / "ratios.svg").exists()
    assert (tmp_path / "partitions-cpu.svg").exists()
    plots.write_all(results, tmp_path)
    assert (tmp_path / "ratios.svg").exists()


def test_a_full_run_writes_the_parts_that_it_has_measured_whole():
    found = outcome()
    found.noise["scaling"] = [Noise(0.1, 0.0)]
    pieces = report.by_part(found, ["scaling"])
    assert [*pieces["scaling"].results] == [f"scaling.partitions.{n}.cpu" for n in (1, 100, 1000)]
    assert [*pieces["scaling"].noise] == ["scaling"]
    assert pieces[""].results.keys() == found.results.keys() - pieces["scaling"].results.keys()
    assert [*pieces[""].noise] == ["w4", "w11"]
    assert pieces[""].seconds == found.seconds
