"""What is measured is measured: the benchmarks themselves."""
