"""How a plan's chunks, homes and copies arrange a kernel's work: which loops there are, what they compute and store."""
