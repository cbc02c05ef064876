"""Prints the prompt; variables in it are filled in afterwards."""

from agentv_sandbox.sdk import define_prompt_template


@define_prompt_template
def prompt(case):
    parts = [
        "You judge the answer of an assistant.",
        f"## Question\n{case.question}",
        f"## Answer\n{case.answer}",
        f"## Criteria\n{case.config['rubric']}",
    ]
    if case.reference_answer:
        parts.append(f"## One good answer\n{case.reference_answer}")
    if case.config.get("strict"):
        parts.append("Give 1.0 only when nothing is missing.")
    return "\n\n".join(parts)
