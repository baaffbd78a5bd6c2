"""The group coordinator as a pure machine: membership, assignment and committed offsets of consumer groups."""
