"""Small programs on the stock tritonclient, which know of the server only what the protocol says."""
