"""`warpserve predict`: how long one step of a deployment takes, and what for."""
