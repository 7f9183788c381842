"""`vk bench spdnn` and `vk run spdnn --compare`: measuring inference beside baselines, checked against a reference."""
