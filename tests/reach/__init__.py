"""Which slow tests a change can reach: what every test file runs, reads and lists is recorded once, in `map.json`.

`python -m tests.reach` records, and docs/project/run_tests.md says when. `recorder` runs in every process of a recorded test
file, which `record` starts. `values` adds what no recorder sees, `tree` knows the files as they are now, `chart` is the map on
disk, and `plan` chooses test files by them, for the plugin `time_limit` of pytest.
"""
