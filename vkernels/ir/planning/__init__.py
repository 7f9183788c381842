"""Plans: which one a kernel gets."""
