"""What the compiler decided for one kernel on one target, and why; docs/explain.md."""
