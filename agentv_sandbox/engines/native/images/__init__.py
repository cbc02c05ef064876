"""The native engine's images: kept, unpacked, described, named."""
