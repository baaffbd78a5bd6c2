"""The audit of dependencies: locks that pin, packages that are what they say, versions known to be bad."""

from pathlib import Path

import audit_dependencies
import pytest
from audit_dependencies import Pin, problems, read_advisories, read_lock

ROOT = Path(__file__).parents[3]
LOCK = """
# a comment
-c other.lock
good==1.2 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via somebody
With_Extra[x]==3.0 --hash=sha256:cc
other==1.0 ; python_version < "3" --hash=sha256:dd
bare==2.0
"""
ADVISORIES = read_advisories(
    """
[[advisory]]
package = "Bad_Package"
id = "CVE-1"
affected = ["<1.5", ">=2,<2.0.3"]
why = "it bites"
"""
)


def test_a_lock_is_read():
    assert list(read_lock(LOCK)) == [
        Pin("good", "1.2", has_hashes=True),
        Pin("with-extra", "3.0", has_hashes=True),
        Pin("bare", "2.0", has_hashes=False),
    ]


@pytest.mark.parametrize("line", ["loose>=1.0 --hash=sha256:aa", "loose --hash=sha256:aa"])
def test_a_line_that_pins_nothing_is_refused(line):
    with pytest.raises(ValueError, match="loose"):
        list(read_lock(line))


def test_what_is_pinned_without_a_hash_is_told():
    assert list(problems([Pin("a", "1", has_hashes=False)], {}, [])) == [
        "a 1 is pinned without a hash"
    ]


def test_what_is_installed_otherwise_is_told():
    pins = [Pin("a", "1", has_hashes=True), Pin("b", "1", has_hashes=True)]
    assert list(problems(pins, {"a": "2", "other": "7"}, [])) == [
        "a 2 is installed, the lock says 1"
    ]


@pytest.mark.parametrize(
    ("version", "is_bad"),
    [("1.4", True), ("1.5", False), ("2.0", True), ("2.0.2", True), ("2.0.3", False), ("3", False)],
)
def test_versions_that_are_known_to_be_bad_are_told(version, is_bad):
    told = list(problems([Pin("bad-package", version, has_hashes=True)], {}, ADVISORIES))
    assert bool(told) == is_bad
    assert bool(list(problems([], {"bad-package": version}, ADVISORIES))) == is_bad
    if is_bad:
        assert "CVE-1" in told[0]
        assert "it bites" in told[0]


def test_the_projects_own_locks_pass():
    pins = [
        pin
        for name in ("requirements.lock", "requirements-spark.lock")
        for pin in read_lock((ROOT / name).read_text())
    ]
    advisories = read_advisories(audit_dependencies.ADVISORIES.read_text())
    assert advisories
    assert list(problems(pins, {}, advisories)) == []
