"""The host side of a GPU kernel: compiling it, loading it, and what a call passes to it."""
