"""Dockerfiles as they are written: their words, lines and stages, and what a stage's instructions do. Pure."""
