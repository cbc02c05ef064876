"""What is fetched on the host for images: mirrors, pip's settings, credentials, downloads."""
