"""One file a format. Each has a NAME, WHAT it reads, and the functions `recognises` and `read`."""
