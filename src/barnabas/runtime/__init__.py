"""The real world behind the ports: the only package that may block, wait, or ask the system."""
