"""How many plans are compiled to choose one by its binaries. Nothing is imported here: commands need it at once."""

JUDGED = 4
"""Plans for a GPU that calls, `vk check` and `vk explain` judge, if nobody says how many."""
