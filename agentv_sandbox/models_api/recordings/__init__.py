"""Calls of models, kept and replayed."""
