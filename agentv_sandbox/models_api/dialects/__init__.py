"""APIs of models, one file each."""
