"""What every client is asked to write and must read back."""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_TIMESTAMP_MS = 1_600_000_000_000
RECORDS = 20


def records(tag):
    """Key, value, headers and timestamp of RECORDS records, with a null key, a null value and an empty header among them."""
    return [
        (
            None if i == 3 else f"{tag}-key-{i}".encode(),
            None if i == 5 else f"{tag}-value-{i}-".encode() + b"x" * 50,
            [] if i == 7 else [("n", str(i).encode()), ("empty", b""), ("n", b"again")],
            FIRST_TIMESTAMP_MS + i * 1000,
        )
        for i in range(RECORDS)
    ]
