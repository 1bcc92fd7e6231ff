"""The files in which a run keeps what it has found at its first look at the rows."""

SCAN, SAMPLE = "scan.json", "scan.parquet"
