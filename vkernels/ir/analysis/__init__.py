"""What is known about a kernel: accesses, races, needs. Nothing here changes IR."""
