"""Bytes to objects and back: frames, message codecs, record batches, compression.

Importing this package imports nothing else; message modules are loaded one by one, when they are first needed.
"""
