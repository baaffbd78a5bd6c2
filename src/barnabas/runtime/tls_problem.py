"""What is told when TLS cannot be had as the settings say. Apart, so that a broker without TLS does without the rest."""


class TlsProblem(OSError):
    """Keys or certificates that cannot be used; the text says which setting."""
