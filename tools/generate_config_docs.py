"""Write docs/configuration.md from the tables of settings.

python tools/generate_config_docs.py           write the file
python tools/generate_config_docs.py --check   only say whether it is current
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.model.config import NOT_APPLICABLE, TOPIC_SETTINGS, TOPIC_SYNONYMS, render
from barnabas.model.config.tables import AREAS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.model.config import Setting

TARGET = Path(__file__).parents[1] / "docs/configuration.md"

HEAD = """# Settings

Generated from the tables in `src/barnabas/model/config/` by `tools/generate_config_docs.py`; do not edit.

Names, types, defaults and bounds are those of Apache Kafka 4.3.1. A setting of the broker comes, from the strongest
layer down, from this broker's dynamic settings (`barnabas config set`, `kafka-configs --alter`), from those for all
brokers, from `--set` and the configuration file, and from the default below. A topic's own settings come before all of these.
A name that is not known is refused with the nearest one that is.

"Changes" says when a setting of the broker may change: *read-only* needs a restart, *per-broker* changes one broker
while it runs, *cluster-wide* one or all. Settings of topics may change at any time. *Not read yet* names the part of
Barnabas that a setting belongs to while that part is not there: the setting is checked, kept and shown, and does nothing.
"""


def document() -> str:
    """Give the whole text."""
    parts = [HEAD, "\n## Topics\n", table(TOPIC_SETTINGS.values(), of_topics=True)]
    parts += ["\n## Brokers\n"]
    for title, area in AREAS.items():
        parts += [f"\n### {title}\n", table(area.values(), of_topics=False)]
    parts += ["\n## Settings of Kafka that do nothing here\n", not_applicable(NOT_APPLICABLE)]
    return "\n".join(parts)


def table(settings: Iterable[Setting], *, of_topics: bool) -> str:
    """Give one table of settings in the order of their names."""
    last = "Broker settings behind it" if of_topics else "Changes"
    lines = [
        f"| Name | Type | Default | Allowed | {last} | What it does |",
        "|---|---|---|---|---|---|",
    ]
    lines += [row(s, of_topics=of_topics) for s in sorted(settings, key=lambda s: s.name)]
    return "\n".join(lines) + "\n"


def row(setting: Setting, *, of_topics: bool) -> str:
    """Give one line of a table."""
    behind = ", ".join(f"`{s.name}`" for s in TOPIC_SYNONYMS.get(setting.name, ()))
    text = setting.documentation
    if setting.feature:
        text += f" *Not read yet: {setting.feature.value}.*"
    cells = (
        f"`{setting.name}`",
        setting.kind.name.lower(),
        shown(setting),
        setting.allowed.text,
        behind if of_topics else setting.update.value,
        text,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def shown(setting: Setting) -> str:
    """Give the default as a person would write it."""
    text = render(setting.default)
    if text is None:
        return "not set"
    return f"`{text}`" if text else "empty"


def not_applicable(reasons: Mapping[str, str]) -> str:
    """Give the list of names that are accepted and ignored, by reason."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(f"`{name}`")
    intro = "A configuration file may hold these; the broker says at the start that they have no effect, and why.\n\n"
    return intro + "".join(f"- {reason}: {', '.join(found)}\n" for reason, found in names.items())


def main(arguments: list[str]) -> int:
    """Write or check; 1 when the file is not current."""
    if arguments == ["--check"]:
        current = TARGET.exists() and TARGET.read_text() == document()
        print("current" if current else f"{TARGET.name} is not current; run {Path(__file__).name}")
        return 0 if current else 1
    TARGET.write_text(document())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
