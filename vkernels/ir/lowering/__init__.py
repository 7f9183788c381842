"""Lowerings of mapped IR to what compilers take."""
