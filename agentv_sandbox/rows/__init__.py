"""Rows of a run and how they are read and written: records, names, figures, masked files."""
