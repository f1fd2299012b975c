"""Benchmarks: workloads as data, outcome checks before any time counts, and everything compared within one run."""
