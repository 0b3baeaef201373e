"""What is added from outside the package: defined here, registered nowhere, and held to the same contract."""
