"""The names of the files in which a run stores the scan of its rows."""

SCAN, SAMPLE = "scan.json", "scan.parquet"
