"""Compilers: from mapped IR to code that runs."""
