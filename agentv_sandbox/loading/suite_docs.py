"""Authoring models of a suite, a test and everything in them but assertions."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf, WithJsonSchema

from agentv_sandbox.authoring.docs import Doc
from agentv_sandbox.authoring.fields import Text, Unit
from agentv_sandbox.authoring.names import PATTERNS, well_formed
from agentv_sandbox.authoring.tree import Seq
from agentv_sandbox.graders.kind import Assertions, PreprocessorDoc
from agentv_sandbox.graders.rubric_items import RubricDoc
from agentv_sandbox.loading.hosts import allowed_host
from agentv_sandbox.logs import safe_name
from agentv_sandbox.models.suite import NetworkPolicy

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)i?b?\Z", re.IGNORECASE)
_SCALE = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_size(value: str | int) -> int:
    """Bytes from ``512m``, ``1.5g``, ``2GiB`` or a plain number. Powers of 1024, as Docker has it."""
    match = _SIZE.fullmatch(str(value).strip())
    if not match or isinstance(value, bool):
        raise ValueError(f"must be a size such as 512m or 2g, found '{value}'")
    size = int(float(match[1]) * _SCALE[match[2].lower()])
    if size <= 0:
        raise ValueError("must be more than 0; 0 would mean no limit")
    return size


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _not_empty(value: Seq) -> Seq:
    if not value:
        raise ValueError("must not be empty")
    return value


def _relative_glob(value: str) -> str:
    if value.startswith(("/", "\\")) or ".." in value.replace("\\", "/").split("/"):
        raise ValueError(
            f"must be a glob inside the workspace, without a leading / and without .., found '{value}'"
        )
    return value


SIZE_SCHEMA = {
    "type": ["integer", "string"],
    "exclusiveMinimum": 0,
    "pattern": "^\\s*[0-9.]+\\s*[kmgtKMGT]?[iI]?[bB]?\\s*$",
}
_HOST_SCHEMA = {"type": "string", "pattern": "^[^/\\s*]+:[0-9]{1,5}$"}
_GLOB_SCHEMA = {"type": "string", "minLength": 1, "pattern": "^(?!/)(?!.*(^|/)\\.\\.(/|$))"}


def _printable(text: str) -> str:
    """Ids go into environments, commands and terminals, which take no NUL, line end or half a character."""
    if bad := next((c for c in text if unicodedata.category(c) in ("Cc", "Cs")), None):
        raise ValueError(
            f"must hold no control character, found {safe_name(bad)} in {safe_name(text)[:80]!r}"
        )
    return text


Id = Annotated[Text, AfterValidator(_printable)]
Size = Annotated[Annotated[int, Field(gt=0)] | Text, AfterValidator(parse_size), WithJsonSchema(SIZE_SCHEMA)]
Host = Annotated[Text, AfterValidator(allowed_host), WithJsonSchema(_HOST_SCHEMA)]
Glob = Annotated[Text, AfterValidator(_relative_glob), WithJsonSchema(_GLOB_SCHEMA)]
Input = Annotated[Any, WithJsonSchema({"x-ref": "Input"})]
Expected = Annotated[Any, WithJsonSchema({"x-ref": "Expected"})]
Globs = Annotated[list[Glob] | Glob, AfterValidator(_one_or_many)]
Names = Annotated[list[Text] | Text, AfterValidator(_one_or_many)]
Items = Annotated[
    InstanceOf[Seq],
    AfterValidator(_not_empty),
    WithJsonSchema({"type": "array", "minItems": 1, "items": {"x-ref": "TestItem"}}),
]
Seconds = Annotated[float, Field(gt=0)]


class NetworkDoc(Doc):
    allow: list[Host] = Field(default_factory=list)
    read_only: list[Host] = Field(default_factory=list)
    plain: list[Host] = Field(default_factory=list)

    def policy(self) -> NetworkPolicy:
        """What was written, as the proxy takes it."""
        return NetworkPolicy(
            allow=tuple(self.allow), read_only=tuple(self.read_only), plain=tuple(self.plain)
        )


class LimitsDoc(Doc):
    memory: Size | None = None
    cpus: Annotated[float, Field(gt=0)] | None = None
    pids: Annotated[int, Field(gt=0)] | None = None
    timeout_seconds: Seconds | None = None
    workspace_size: Size | None = None
    workspace_files: Annotated[int, Field(gt=0)] | None = None
    output_size: Size | None = None
    tmp_size: Size | None = None


class HookDoc(Doc):
    ALIASES: ClassVar = {"script": "command"}

    command: list[Text] | Text | None = None
    timeout_ms: Annotated[float, Field(gt=0)] | None = None
    cwd: Text | None = None
    reset: Literal["none", "fast", "strict"] = "none"


class HooksDoc(Doc):
    enabled: bool = True
    before_all: HookDoc | None = None
    before_each: HookDoc | None = None
    after_each: HookDoc | None = None
    after_all: HookDoc | None = None


class RepoDoc(Doc):
    ALIASES: ClassVar = {"base_commit": "commit"}

    REMOVED: ClassVar = {
        "source": "write repo: with the URL or path",
        "checkout": "write commit:, and ancestor: where needed",
        "clone": "write sparse: where needed",
    }

    path: Text | None = None
    repo: Text
    commit: Text | None = None
    ancestor: Annotated[int, Field(ge=0)] | None = None
    sparse: list[Text] = Field(default_factory=list)


class DockerDoc(Doc):
    image: Text | None = None
    dockerfile: Text | None = None
    timeout: Seconds | None = None
    memory: Size | None = None
    cpus: Annotated[float, Field(gt=0)] | None = None


class PackagesDoc(Doc):
    apt: dict[Text, Text] = Field(default_factory=dict)
    pip: dict[Text, Text] = Field(default_factory=dict)
    sdist: dict[Text, Text] = Field(default_factory=dict)
    npm: dict[Text, Text] = Field(default_factory=dict)


def _version(runtime: str, example: str) -> Any:
    pattern = PATTERNS[runtime].pattern

    def check(value: Any) -> Any:
        # YAML reads 3.10 as the number 3.1, so the intended version is lost.
        if isinstance(value, int | float):
            raise ValueError(f"must be text in quotes, such as '{example}'; without them it is a number")
        if not well_formed(runtime, str(value)):
            raise ValueError(f"must be a version such as '{example}', found '{value}'")
        return value

    return Annotated[
        str, BeforeValidator(check), WithJsonSchema({"type": "string", "pattern": f"^{pattern}$"})
    ]


class VersionsDoc(Doc):
    python: _version("python", "3.12") | None = None  # type: ignore[valid-type]
    node: _version("node", "22") | None = None  # type: ignore[valid-type]


class EnvDoc(Doc):
    required_commands: list[Text] = Field(default_factory=list)
    required_python_modules: list[Text] = Field(default_factory=list)
    packages: PackagesDoc | None = None
    versions: VersionsDoc | None = None


class WorkspaceDoc(Doc):
    ALIASES: ClassVar = {"scope": "isolation"}
    REMOVED: ClassVar = {
        "static": "name a folder in template; each test gets a copy of it",
        "static_path": "name a folder in template; each test gets a copy of it",
        "pool": "leave it out; workspaces are always fresh",
        "scripts": "name the commands in hooks",
        "setup": "name the command in hooks.before_all",
        "teardown": "name the command in hooks.after_all",
        "workspace": "a workspace file holds the fields themselves, without workspace: around them",
    }

    template: Text | None = None
    isolation: Literal["shared", "per_test", "suite", "attempt"] | None = None
    repos: list[RepoDoc] | None = None
    hooks: HooksDoc | None = None
    storage: Literal["memory", "disk"] | None = None
    mode: Literal["pooled", "temp", "static"] | None = None
    path: Text | None = None
    docker: DockerDoc | None = None
    env: EnvDoc | None = None


class TrialsDoc(Doc):
    count: Annotated[int, Field(ge=1)] = 1
    strategy: Literal["pass_at_k", "pass_any", "pass_all", "mean", "confidence_interval"] = "pass_at_k"
    cost_limit_usd: Annotated[float, Field(gt=0)] | None = None


class TargetHooksDoc(HooksDoc):
    """Hooks of a target; as a workspace's."""


class TargetRefDoc(Doc):
    """A target of the eval file's own: another name for one of targets.yaml, or a whole definition."""

    OPEN: ClassVar = True

    name: Text
    use_target: Text | None = None
    hooks: TargetHooksDoc | None = None


TargetName = Text | TargetRefDoc


class ExecutionDoc(Doc):
    ALIASES: ClassVar = {"assert": "assertions", "evaluators": "assertions", "repeat": "trials"}

    target: TargetName | None = None
    targets: list[TargetName] | None = None
    workers: Annotated[int, Field(ge=1, le=50)] | None = None
    threshold: Unit | None = None
    trials: TrialsDoc | Annotated[int, Field(ge=1)] | None = None
    budget_usd: Annotated[float, Field(gt=0)] | None = None
    fail_on_error: bool | Unit = False
    skip_defaults: bool = False
    cache: bool | None = None
    cache_path: Text | None = None
    assertions: Assertions | None = None


class TurnDoc(Doc):
    ALIASES: ClassVar = {"assert": "assertions", "evaluators": "assertions"}

    input: Input
    expected_output: Expected = None
    assertions: Assertions | None = None


class TestDoc(Doc):
    __test__ = False
    ALIASES: ClassVar = {
        "expected_outcome": "criteria",
        "assert": "assertions",
        "evaluators": "assertions",
        "expected": "expected_output",
    }

    id: Id
    criteria: str | None = None
    description: Any = None
    input: Input = None
    input_files: list[Text] | None = None
    expected_output: Expected = None
    assertions: Assertions | None = None
    rubrics: list[Text | RubricDoc] | None = None
    vars: dict[str, Any] | None = None
    execution: ExecutionDoc | None = None
    workspace: WorkspaceDoc | Text | None = None
    metadata: dict[str, Any] | None = None
    outputs: Globs | None = None
    conversation_id: Id | None = None
    suite: str | None = None
    depends_on: list[Text] | None = None
    on_dependency_failure: Literal["skip", "fail", "run"] = "skip"
    mode: Literal["conversation"] | None = None
    turns: Annotated[list[TurnDoc], Field(min_length=1)] | None = None
    aggregation: Literal["mean", "min", "max"] = "mean"
    on_turn_failure: Literal["continue", "stop"] = "continue"
    window_size: Annotated[int, Field(ge=1)] | None = None
    evaluator: Any = None


class SuiteDoc(Doc):
    ALIASES: ClassVar = {
        "assert": "assertions",
        "evaluators": "assertions",
        "eval_cases": "tests",
        "evalcases": "tests",
        "$schema": "schema_uri",
    }

    schema_uri: str | None = None
    name: Text | None = None
    description: str | None = None
    category: str | None = None
    version: Annotated[str | None, BeforeValidator(lambda v: str(v) if isinstance(v, int | float) else v)] = (
        None
    )
    author: Any = None
    tags: Names | None = None
    license: str | None = None
    requires: dict[str, Any] | None = None
    input: Input = None
    input_files: list[Text] | None = None
    tests: Text | Items
    target: TargetName | None = None
    execution: ExecutionDoc | None = None
    assertions: Assertions | None = None
    evaluator: Any = None
    preprocessors: list[PreprocessorDoc] | None = None
    workspace: WorkspaceDoc | Text | None = None
    metadata: dict[str, Any] | None = None
    governance: dict[str, Any] | None = None
    outputs: Globs | None = None
    network: NetworkDoc | None = None
    limits: LimitsDoc | None = None
