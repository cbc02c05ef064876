"""Packages of Debian, PyPI and npm: resolved, made and installed in containers without network."""
