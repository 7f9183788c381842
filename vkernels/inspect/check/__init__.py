"""Checking kernels against devices that are not here: cells of kernel × target, from what compilers really give."""
