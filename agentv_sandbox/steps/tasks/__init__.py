"""Tests that are task folders: their steps, what prepares each, and their verifiers."""
