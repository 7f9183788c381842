"""vkernels.autotune: search spaces, searches, and what recorded spaces are replayed with; the tuner builds on them."""
