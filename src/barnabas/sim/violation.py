"""What a run ends with when a promise was broken."""


class Violation(Exception):
    """Names the checker and says in words what it saw."""

    def __init__(self, checker: str, what: str) -> None:
        """Remember both."""
        super().__init__(f"{checker}: {what}")
        self.checker = checker
        self.what = what
