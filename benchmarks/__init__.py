"""Measurements side by side with peers, in one run. Each module runs by itself: `python -m benchmarks.<name>`."""
