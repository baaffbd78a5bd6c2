"""What the figures are counted in."""

GB = 1e9
MILLION = 1e6
