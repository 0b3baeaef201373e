"""The tests; `tests.oracle` computes every result a second time."""
