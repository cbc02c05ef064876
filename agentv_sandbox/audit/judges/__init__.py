"""How good is a judge? Answers that a person labelled, given to it as a grader would give them.

``samples`` reads them, ``asking`` puts them to the judge, ``variants`` says how else they are put, ``keeping`` keeps
what it said, ``figures`` is what comes of that.
"""
