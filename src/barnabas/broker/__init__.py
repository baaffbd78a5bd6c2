"""One node: every entry point runs to its end and never waits. No sockets, threads or files of its own."""
