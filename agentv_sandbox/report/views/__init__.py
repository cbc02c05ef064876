"""Forms in which runs are written. Each file of this folder that holds ``VIEWS`` adds its own."""
