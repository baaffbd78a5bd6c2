"""A topic's settings as the log reads them."""

import dataclasses

import pytest

from barnabas.model.config import ConfigProblem, build_log_config


def test_defaults():
    config = build_log_config()
    assert config.segment_bytes == 1024**3
    assert config.retention_ms == 7 * 24 * 3600 * 1000
    assert config.delete
    assert not config.compact
    assert not config.log_append_time
    assert config.roll_ms == config.segment_ms
    assert config.initial_file_size_bytes == 0


def test_it_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        build_log_config().segment_bytes = 5


def test_the_internal_segment_size_goes_below_the_public_one():
    assert build_log_config({"internal.segment.bytes": 100}).segment_bytes == 100


def test_a_compacted_topic_closes_segments_in_time_for_the_cleaner():
    lag = {"max.compaction.lag.ms": 1000}
    assert build_log_config({**lag, "cleanup.policy": ("compact",)}).roll_ms == 1000
    assert build_log_config(lag).roll_ms == build_log_config().segment_ms


def test_what_values_mean():
    config = build_log_config(
        {
            "cleanup.policy": ("compact", "delete"),
            "message.timestamp.type": "LogAppendTime",
            "preallocate": True,
            "segment.bytes": 2**20,
        }
    )
    assert config.compact
    assert config.delete
    assert config.log_append_time
    assert config.initial_file_size_bytes == 2**20


def test_no_policy_keeps_everything():
    config = build_log_config({"cleanup.policy": ()})
    assert not config.compact
    assert not config.delete


def test_compaction_lags_must_be_in_order():
    build_log_config({"min.compaction.lag.ms": 5, "max.compaction.lag.ms": 5})
    with pytest.raises(ConfigProblem, match=r"\(6\) is more than max.compaction.lag.ms \(5\)"):
        build_log_config({"min.compaction.lag.ms": 6, "max.compaction.lag.ms": 5})
