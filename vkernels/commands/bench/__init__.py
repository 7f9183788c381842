"""`vk bench`: whole jobs measured beside what the machine could do."""
