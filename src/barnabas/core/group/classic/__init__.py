"""The classic protocol: members join, their leader assigns, the coordinator keeps generations apart."""
