"""What a suite's image must hold: said by the suite, called by its commands and scripts, resolved to a plan."""
