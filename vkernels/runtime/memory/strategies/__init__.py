"""Ways to choose a schedule: the published ones, each in a file, and our own search."""
