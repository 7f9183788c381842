"""Kernels as newcomers write them from the documentation, each checked interpreted, on the CPU and as on a GPU."""
