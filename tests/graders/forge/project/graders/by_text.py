"""How not to do it: makes JSON by hand from what the candidate wrote."""

from pathlib import Path

print('{"score": ' + Path("/workspace/score.txt").read_text() + "}")
