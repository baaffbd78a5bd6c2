"""The vocabulary every other layer speaks: ids, error codes, settings. Imports nothing of ours."""
