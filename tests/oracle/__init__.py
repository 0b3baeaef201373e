"""Random queries and inputs, two oracles that know nothing of the engine, and the checks that compare it with them."""
