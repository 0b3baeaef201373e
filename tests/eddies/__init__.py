"""EddyJoins and STAIRs: their operations, the rule that keeps results single, and what it takes to break them."""
