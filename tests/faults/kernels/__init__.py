"""A battery of wrong kernels, and which of them `inference.certify` sees: `python -m tests.faults.kernels`."""
