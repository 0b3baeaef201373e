"""What runs between two pushes: from rows that have entered the windows to the results that they complete."""
