"""Every module says what it is for, in its first sentence: the list of them is the map in the small."""

import list_modules


def test_every_module_has_its_job():
    listed = dict(list_modules.modules([]))
    assert len(listed) > 300
    assert [name for name, job in listed.items() if len(job) < 10] == []


def test_a_layer_can_be_asked_for():
    listed = dict(list_modules.modules(["ports.py", "model"]))
    assert "ports.py" in listed
    assert {name.partition("/")[0] for name in listed} == {"ports.py", "model"}


def test_a_job_is_one_sentence():
    assert list_modules.job('"""Keeps\n  count. Not more."""') == "Keeps count."
    assert list_modules.job('"""No full stop\n\nMore."""') == "No full stop"
    assert list_modules.job("x = 1") == ""
