"""Real kills: a driver program in processes of its own, parts of which are killed at random moments."""
