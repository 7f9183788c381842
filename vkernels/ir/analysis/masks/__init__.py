"""Masks: where the terms of a loop are neutral, and the positions of an axis at which they are not."""
