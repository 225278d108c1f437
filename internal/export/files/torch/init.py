"""What evotune_torch is made of."""
