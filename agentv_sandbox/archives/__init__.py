"""Archives of images and tar files that others wrote, read within bounds; and what ours say."""
