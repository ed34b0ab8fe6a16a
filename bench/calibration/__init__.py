"""`warpserve calibrate`: a predictor is brought to what a real run measured.

`observations` reads from a run how long steps took beside what a predictor says, `prefills` those
of steps with prefills from a client's times, `fitting` finds the numbers of steps, `frontends` what
a request takes beside them, `cli` says what was fitted on what, and how far it is from the rest.
"""
