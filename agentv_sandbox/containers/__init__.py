"""Containers, volumes and what each role may touch. Nothing else starts a container."""
