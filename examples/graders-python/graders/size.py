"""A number between 0 and 1, from the unified diff of the workspace."""

from agentv_sandbox.sdk import define_code_grader


@define_code_grader
def grade(case):
    added = sum(
        line.startswith("+") and not line.startswith("+++") for line in case.file_changes.splitlines()
    )
    allowed = case.config["max_lines"]
    return {
        "score": min(1.0, allowed / added) if added else 0.0,
        "assertions": [{"text": f"{added} lines, {allowed} allowed", "passed": 0 < added <= allowed}],
    }
