"""What a plan decides, one decision a file; `decisions.py` lists them."""
