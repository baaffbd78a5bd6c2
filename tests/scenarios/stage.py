"""Plays a transcript: lines that begin with `> ` are commands, the indented lines under each are what came of it.

A command is `> verb words key=value` or, with an actor's name first, `> anna verb …`. A stage has a method
`do_<verb>(*words, **options)` for the first kind and `act_<verb>(actor, *words, **options)` for the second; each gives
back lines to show. Everything else in a transcript (comments, blank lines) is kept as it is.
"""

from __future__ import annotations


class Stage:
    """The verbs every stage knows; `machine` is a group_kit.Machine."""

    machine = None

    def play(self, text):
        """Give the transcript as it comes out now."""
        shown = []
        for line in text.splitlines():
            if line.startswith("  "):
                continue
            shown.append(line)
            if line.startswith("> "):
                shown += [f"  {out}" for out in self.command(line[2:])]
        return "\n".join(shown) + "\n"

    def command(self, line):
        words, options = [], {}
        for word in line.split():
            key, equals, value = word.partition("=")
            if equals and key.isidentifier():
                options[key] = value
            else:
                words.append(word)
        method = getattr(self, f"do_{words[0]}", None)
        if method is not None:
            lines = method(*words[1:], **options)
        else:
            lines = getattr(self, f"act_{words[1]}")(words[0], *words[2:], **options)
        return [*self.news(), *lines]

    def news(self):
        """What was written and answered since the last command; replaced by each stage."""
        return []

    def do_wait(self, duration):
        """Let time pass: `wait 3s`, `wait 500ms`."""
        in_ms = int(duration[:-2]) if duration.endswith("ms") else int(duration[:-1]) * 1000
        self.machine.advance(in_ms)
        return []
