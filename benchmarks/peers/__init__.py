"""The peers' own programs and configuration templates; benchmarks.targets starts them."""
