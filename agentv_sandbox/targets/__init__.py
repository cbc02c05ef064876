"""Targets of a suite: which are chosen, what they cost, what they are told of this machine, whom they reach."""
