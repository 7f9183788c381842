"""Memory: blocks that kernels work in, and device memory planned for a whole training step; docs/memory.md."""
