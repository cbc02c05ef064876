"""What agents and judges are asked."""

from __future__ import annotations

from tests.beside.small import Small

_CSV = {"data/sales.csv": "month,total\njan,3\n"}
_FILE = "{type: file, value: data/sales.csv}"
_CLI = "{name: default, provider: cli, command: 'cp {PROMPT_FILE} {OUTPUT_FILE}', grader_target: judge}"
_TEMPLATE = '"IN<{{ input }}> OUT<{{ output }}> EXP<{{ expected_output }}> CRIT<{{ criteria }}>"'
_ROLES = """[{role: system, content: Be brief.}, {role: user, content: One?}, {role: assistant, content: two},
      {role: user, content: Three?}]"""


def _judged(name: str, body: str, **more: object) -> Small:
    """One test whose input is ``body``, judged by a built-in prompt, a template and a rubric."""
    suite = f"""
tests:
  - id: t
    criteria: It is right.
    {body}
    assertions:
      - {{type: llm-grader, name: own, prompt: {_TEMPLATE}}}
      - {{type: llm-grader, name: free, prompt: Be right}}
      - {{type: rubrics, name: list, criteria: [{{id: one, outcome: First}}, {{id: two, outcome: Second, weight: 2}}]}}
      - type: rubrics
        name: ranges
        criteria: [{{id: r, score_ranges: {{0: none, 5: some, 10: all}}}}]
"""
    return Small(name=name, suite=suite, files=_CSV, **more)  # type: ignore[arg-type]


ASKED = (
    _judged("judged-text", "input: '  What is 2 + 2?  '"),
    _judged("judged-file", f"input: [{{role: user, content: [{_FILE}, {{type: text, value: Sum it up.}}]}}]"),
    _judged("judged-roles", f"input: {_ROLES}"),
    _judged("judged-object", "input: {city: Oslo, numbers: [1, 2.5]}"),
    _judged("judged-system", "input: [{role: system, content: Be brief.}, {role: user, content: Hello}]"),
    _judged("judged-input-files", "input: Sum it up.\n    input_files: [data/sales.csv]"),
    _judged("judged-expected", "input: Say hi\n    expected_output: hi there"),
    _judged("judged-expected-object", "input: Say hi\n    expected_output: {a: 1, b: [x]}"),
    _judged(
        "judged-expected-messages", "input: Say hi\n    expected_output: [{role: assistant, content: hi}]"
    ),
    _judged(
        "judged-file-agent",
        f"input: [{{role: user, content: [{_FILE}, {{type: text, value: Sum.}}]}}]",
        default=_CLI,
    ),
    _judged("judged-roles-agent", f"input: {_ROLES}", default=_CLI),
)
