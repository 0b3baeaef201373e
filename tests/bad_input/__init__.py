"""What the engine refuses, drops and counts, and what odd but valid input must mean."""
