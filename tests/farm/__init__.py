"""The farm, simulated."""
