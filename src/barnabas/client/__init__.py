"""Talking to a cluster, without sockets: what to ask whom, and what the answers mean.

What is here decides; `runtime.client_io` sends and receives. Conversations are generators (`talk.py`), so they read from top to
bottom and run over blocking sockets, over the simulator, or over a list of answers in a test.
"""
