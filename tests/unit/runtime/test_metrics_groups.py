"""Figures of groups in the text format of Prometheus."""

from barnabas.broker.group_lag import GroupFigures, PartitionLag
from barnabas.runtime import metrics_groups

GROUPS = [
    GroupFigures(
        "billing",
        2,
        [
            PartitionLag("orders", 0, 5, 3, 1.5),
            PartitionLag("orders", 1, 7, 0, 0.0),
            PartitionLag("elsewhere", 0, 9, None, None),
        ],
    ),
    GroupFigures('od"d', 0, []),
]


def samples(text):
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_every_figure_stands_under_the_names_that_dashboards_know():
    assert samples(metrics_groups.render(GROUPS, "c1")) == [
        'kafka_consumergroup_members{consumergroup="billing"} 2',
        'kafka_consumergroup_members{consumergroup="od\\"d"} 0',
        'kafka_consumergroup_current_offset{consumergroup="billing",topic="orders",partition="0"} 5',
        'kafka_consumergroup_current_offset{consumergroup="billing",topic="orders",partition="1"} 7',
        'kafka_consumergroup_current_offset{consumergroup="billing",topic="elsewhere",partition="0"} 9',
        'kafka_consumergroup_current_offset_sum{consumergroup="billing",topic="orders"} 12',
        'kafka_consumergroup_current_offset_sum{consumergroup="billing",topic="elsewhere"} 9',
        'kafka_consumergroup_lag{consumergroup="billing",topic="orders",partition="0"} 3',
        'kafka_consumergroup_lag{consumergroup="billing",topic="orders",partition="1"} 0',
        'kafka_consumergroup_lag_sum{consumergroup="billing",topic="orders"} 3',
        'kafka_consumergroup_group_lag_seconds{cluster_name="c1",group="billing",topic="orders",partition="0"} 1.5',
        'kafka_consumergroup_group_lag_seconds{cluster_name="c1",group="billing",topic="orders",partition="1"} 0',
        'kafka_consumergroup_group_max_lag_seconds{cluster_name="c1",group="billing"} 1.5',
    ]


def test_each_family_is_named_once_with_help_and_type():
    heads = [line for line in metrics_groups.render(GROUPS, "c1").splitlines() if line[0] == "#"]
    names = [line.split()[2] for line in heads]
    assert names[::2] == names[1::2]
    assert len(set(names)) == len(names) // 2 == 7


def test_no_groups_no_text():
    assert metrics_groups.render([], "c1") == ""
