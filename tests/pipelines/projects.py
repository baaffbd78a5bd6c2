"""Projects for tests: files in a folder."""

import textwrap

SPEC = """
name: {name}
storage: .barnabas
libraries:
  - glob:
      include: transformations/**
configuration:
  barnabas.bootstrap.servers: "{bootstrap}"
"""


def make(folder, bootstrap="127.0.0.1:1", **files):
    """Write a project; a file's name has __ for a slash and _py, _sql for its ending."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spark-pipeline.yml").write_text(
        SPEC.format(name=folder.name, bootstrap=bootstrap).lstrip()
    )
    for name, text in files.items():
        stem, _, ending = name.replace("__", "/").rpartition("_")
        file = folder / f"{stem}.{ending}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip())
    return folder
