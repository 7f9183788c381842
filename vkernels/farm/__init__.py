"""Tuning on many machines: so far the order of jobs and the number of nodes, simulated on traces."""
