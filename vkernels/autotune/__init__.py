"""vkernels.autotune: search spaces, searches and the tuning database will live here; nothing is here yet."""
