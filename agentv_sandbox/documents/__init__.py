"""Eval files and targets as they are written: each mapping with its keys and what they may hold."""
