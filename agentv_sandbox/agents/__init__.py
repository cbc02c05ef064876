"""How agents and models are run and how they answer: what kinds of targets (`providers`) share."""
