"""Checks solution.py the recommended way: out of process, plain data compared here."""

from agentv_sandbox.sdk import Assertion, GraderOutput, define_code_grader, run_candidate

CASES = [([1, 2], 3), ([10, -4], 6), (["a", "b"], "ab")]


@define_code_grader
def grade(case):
    ran = run_candidate(
        case.workspace_path / "solution.py", function="add", calls=[args for args, _ in CASES]
    )
    values = ran.value if ran.ok else [None] * len(CASES)
    return GraderOutput(
        assertions=[
            Assertion(
                f"add{tuple(args)} is {wanted!r}", type(got) is type(wanted) and got == wanted, ran.error
            )
            for (args, wanted), got in zip(CASES, values, strict=True)
        ]
    )
