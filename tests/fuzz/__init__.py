"""Random and mutated input to both parsers' sides: `python -m tests.fuzz --count 1000000`."""
