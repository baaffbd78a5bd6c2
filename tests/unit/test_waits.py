"""Every place that waits stands in docs/waits.md, with what it keeps and what proves that it still holds."""

import find_waits


def test_the_page_lists_every_place_that_waits():
    missing, wrong = find_waits.compare(find_waits.find(), find_waits.PAGE.read_text())
    told = "\n".join([*missing, *wrong])
    assert not told, f"docs/waits.md does not fit the source:\n{told}"
