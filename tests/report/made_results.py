"""Hand-made results: what a run hands to the report, hostile parts included."""

from __future__ import annotations

from pathlib import Path

from agentv_sandbox.models.case import (
    AgentResponse,
    Assertion,
    CaseFailure,
    CaseOutput,
    CaseResult,
    Changes,
    FileChange,
    FileEntry,
    GraderResult,
    Skipped,
)
from agentv_sandbox.models.content import Blob, OutputFile
from agentv_sandbox.models.figures import TokenUsage
from agentv_sandbox.models.suite import EvalCase, Suite
from agentv_sandbox.rows.record import Row
from agentv_sandbox.rows.rows import row
from agentv_sandbox.runfolder.folder import RunFolder
from tests.answers import collected, message

STAMP = "2026-05-04T10:00:00.000Z"
DIFF = """diff --git a/notes.txt b/notes.txt
new file mode 100644
--- /dev/null
+++ b/notes.txt
@@ -0,0 +1 @@
+hi
"""


def make_case(case_id: str = "q1", **changes: object) -> EvalCase:
    fields: dict[str, object] = {
        "id": case_id,
        "suite": "reports",
        "category": "finance",
        "input": ({"role": "user", "content": "Sum up the quarter."},),
        "metadata": {"owner": "finance"},
    }
    return EvalCase(**{**fields, **changes})  # type: ignore[arg-type]


def make_grader(name: str = "totals", score: float = 1.0, **changes: object) -> GraderResult:
    passed = score >= 0.8
    fields: dict[str, object] = {
        "name": name,
        "type": "code-grader",
        "score": score,
        "verdict": "pass" if passed else "fail",
        "assertions": (Assertion(text=f"{name} holds", passed=passed, evidence="cell B7"),),
        "duration_ms": 12.0,
        "started_at": STAMP,
        "ended_at": STAMP,
    }
    return GraderResult(**{**fields, **changes})  # type: ignore[arg-type]


def make_output(**changes: object) -> CaseOutput:
    fields: dict[str, object] = {
        "messages": collected(
            [
                message(
                    [
                        {"type": "text", "text": "Revenue grew."},
                        {"type": "file", "path": "out/report.xlsx", "media_type": "xlsx"},
                        {"type": "file", "path": "../../etc/passwd", "media_type": "txt"},
                    ],
                    tool_calls=[{"tool": "Write", "input": {"path": "out/report.xlsx"}, "status": "ok"}],
                )
            ],
            OutputFile(path="out/report.xlsx", media_type="xlsx", blob=Blob(sha256="ab" * 32, size=3)),
            OutputFile(path="../../etc/passwd", media_type="txt", refused="lies outside the workspace"),
        ),
        "changes": Changes(diff=DIFF, files=(FileChange(path="notes.txt", kind="added", new_size=3),)),
        "manifest": {b"notes.txt": FileEntry(path=b"notes.txt", kind="file", sha256="cd" * 32, size=3)},
        "skipped": (Skipped(path="sock", reason="a socket"),),
        "token_usage": TokenUsage(input=10, output=5),
        "cost_usd": 0.25,
        "duration_ms": 1500.0,
        "start_time": STAMP,
    }
    return CaseOutput(**{**fields, **changes})  # type: ignore[arg-type]


def make_result(case_id: str = "q1", score: float = 1.0, **changes: object) -> CaseResult:
    fields: dict[str, object] = {
        "case_id": case_id,
        "suite": "reports",
        "category": "finance",
        "target": "agent",
        "score": score,
        "status": "ok" if score >= 0.8 else "quality_failure",
        "threshold": 0.8,
        "scores": (make_grader(score=score),),
        "output": make_output(),
        "response": AgentResponse(stdout=b"working\n", stderr=b"warn\n"),
        "duration_ms": 2000.0,
        "timestamp": STAMP,
        "image_id": "sha256:1234",
    }
    return CaseResult(**{**fields, **changes})  # type: ignore[arg-type]


def make_error(case_id: str = "q9", message: str = "the agent timed out after 3 s") -> CaseResult:
    return make_result(
        case_id,
        0.0,
        status="execution_error",
        scores=(),
        output=None,
        response=None,
        failure=CaseFailure(stage="agent", code="provider_error", message=message, fault="agent_exit"),
    )


def row_of(result: CaseResult) -> Row:
    """The line of ``index.jsonl`` of a result."""
    made = row(result, make_case(result.case_id), {"artifact_dir": result.case_id}, experiment="default")
    return Row.of(made)[0]


def write_case(folder: RunFolder, result: CaseResult, case: EvalCase, suite: Suite) -> Path:
    """Write one result into a run folder; its own folder there."""
    written, row = folder.write_result(result, case, suite)
    assert written is result, written.failure
    return folder.path / str(row["artifact_dir"])
