"""Which rows of an interrupted run stand: hashes of what a row is made of, and what comes of them."""
