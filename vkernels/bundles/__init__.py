"""Bundles: kernels compiled before, in one file, for processes that compile nothing. docs/bundles.md is its manual."""
