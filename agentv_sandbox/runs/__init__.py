"""Whole runs: prepared, executed here or elsewhere, graded again; the Python interface."""
