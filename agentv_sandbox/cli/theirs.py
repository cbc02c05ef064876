"""What takes the place of AgentV's options and commands that are not here: a word in the error that names them."""

from __future__ import annotations

from collections.abc import Mapping

_TRACES = "`agentv-sandbox report RUN --format otel` writes traces; nothing is sent anywhere"
_PUBLISHED = "nothing is published: `agentv-sandbox pack RUN` makes one file of a run"
_REPEATED = "--record and --replay keep every call of a model"
_COPIES = "every workspace is a copy in a volume; `workspace.template` of the suite names a folder"
_CANNED = "--list shows what would run; a target of `provider: mock` answers without a model"
_SESSIONS = "`import` takes images; `import-transcript EVAL TEST=FILE` takes the file of a session"
_OPTIONS: Mapping[str, str] = {
    "--keep-workspaces": "--keep-failed keeps the workspaces of failed tests",
    "--budget-usd": "write `execution: {budget_usd: …}` into the suite",
    "--model": "the target that --grader-target names says which model",
    "--strict": "leave it out: a suite is read as AgentV 4.42.4 reads it",
    "--output-messages": "leave it out: all messages are kept",
    "--out": "write --output",
    "--output-format": "leave it out: a run folder always holds index.jsonl",
    "--artifacts": "write --output",
    "--transcript": "`import-transcript EVAL TEST=FILE` makes a run of a session, which `grade` grades",
    **dict.fromkeys(
        (
            "--session-id",
            "--project-path",
            "--projects-dir",
            "--sessions-dir",
            "--session-state-dir",
            "--date",
        ),
        _SESSIONS,
    ),
    "--max-warnings": "warnings never change the exit status",
    **dict.fromkeys(("--record-replay", "--record-replay-variant"), "--record keeps every call of a model"),
    **dict.fromkeys(("--cache", "--no-cache", "--cache-path"), _REPEATED),
    **dict.fromkeys(("--workspace-mode", "--workspace-path"), _COPIES),
    **dict.fromkeys(("--dry-run", "--dry-run-delay", "--dry-run-delay-min", "--dry-run-delay-max"), _CANNED),
    **dict.fromkeys(
        ("--otel-file", "--export-otel", "--otel-backend", "--otel-capture-content", "--otel-group-turns"),
        _TRACES,
    ),
    **dict.fromkeys(
        (
            *("--results-repo", "--results-branch", "--results-remote"),
            *("--results-push", "--no-results-push", "--results-require-push"),
        ),
        _PUBLISHED,
    ),
}
_COMMANDS: Mapping[str, str] = {
    "eval": "`agentv eval run` is `agentv-sandbox run`",
    "results": "`report` shows a run; AgentV's own `results` reads its folder, too",
    "inspect": "AgentV's own `inspect` reads run folders of this program",
    "trend": "AgentV's own `trend` reads run folders of this program; `compare` tells change from chance",
    "dashboard": "`report` writes a page; `run --serve` shows a run as it goes",
    "serve": "`report` writes a page; `run --serve` shows a run as it goes",
    "pipeline": "`run --no-grade` answers, `grade` grades",
    "runs": "`run --retry-errors RUN` and `run --rerun-failed` run tests again; AgentV's own `runs rerun`, too",
    "workspace": "`clean` removes what earlier runs left",
    "convert": "JSONL and evals.json are run as they are",
    "create": "`init` writes a first suite",
}


def explain_option(error: Exception) -> None:
    """Say in ``error``, of the parser of options, what takes the place of an option of AgentV's."""
    word = _OPTIONS.get(str(getattr(error, "option_name", "")))
    if word is not None and hasattr(error, "message"):
        error.message = f"{error.message}, which is AgentV's: {word}"
        if hasattr(error, "possibilities"):
            error.possibilities = []


def explain_command(error: Exception, name: str) -> None:
    """The same of a command."""
    if name in _COMMANDS and hasattr(error, "message"):
        error.message = f"{error.message} It is AgentV's: {_COMMANDS[name]}."
