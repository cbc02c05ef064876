"""A type of our own: ``- type: tone`` in any suite of this project."""

from agentv_sandbox.sdk import Assertion, GraderOutput, define_code_grader

RUDE = ("obviously", "as i said")


@define_code_grader
def grade(case):
    found = [word for word in RUDE if word in case.answer.lower()]
    return GraderOutput(assertions=[Assertion("no condescending words", not found, ", ".join(found) or None)])
