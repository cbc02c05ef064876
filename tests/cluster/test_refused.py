"""What a cluster cannot do is said before anything runs, and every option of ``run`` is known to either work or not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentv_sandbox.base.errors import InputError
from agentv_sandbox.cli import imported_command
from agentv_sandbox.cluster.packing import Packing, refusals
from agentv_sandbox.request import RunRequest
from agentv_sandbox.request.clusteraddress import ClusterAddress, parse_address
from agentv_sandbox.runs.prepare import Prepared, prepare
from tests import forkserver

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "cluster.md"
REMOTE, LOCAL = ClusterAddress(scheduler="tcp://10.0.0.1:8786"), ClusterAddress(local=2)


def asked(folder: Path, suite: str = "", **more: object) -> Prepared:
    (folder / ".git").mkdir(exist_ok=True)
    (folder / "targets.yaml").write_text("targets: [{name: agent, provider: mock, response: done}]\n")
    text = suite or "tests: [{id: a, input: go, criteria: x, assert: [{type: contains, value: done}]}]\n"
    (folder / "s.eval.yaml").write_text(f"execution: {{target: agent}}\n{text}")
    return prepare(RunRequest(folder / "s.eval.yaml", cwd=folder, environ={}, **more))  # type: ignore[arg-type]


def test_every_option_of_run_is_in_the_table_and_refused_where_it_says_so(tmp_path: Path) -> None:
    table = dict(
        re.findall(r"^\| `(--[a-z-]+)`[^|]*\| (works|refused|of this command)", DOCS.read_text(), re.M)
    )
    options = {
        max(param.opts, key=len)
        for param in imported_command("run").params
        if param.param_type_name == "option" and param.name != "help"
    }
    assert options == set(table)
    given = {
        "--record": {"record": tmp_path / "r"},
        "--allow-outside": {"allow_outside": True},
        "--engine": {"engine": "native"},
        "--runtime": {"runtime": "runc"},
        "--follow": {"follow": ["a"]},
    }
    refused = {name for name, values in given.items() if refusals(REMOTE, asked(tmp_path, **values))}
    assert refused == {name for name, state in table.items() if state == "refused"} == set(given)
    assert not refusals(LOCAL, asked(tmp_path, engine="native", runtime="runc"))
    assert not refusals(REMOTE, asked(tmp_path, replay=tmp_path, required_tier="userns"))


def test_files_that_workers_cannot_have_are_named_with_their_lines(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    suite = """
workspace:
  repos:
    - {path: ./code, repo: REPO}
tests: [{id: a, input: go, criteria: x}]
""".replace("REPO", str(project / "repo"))
    (project / "repo" / ".git").mkdir(parents=True)
    [problem] = refusals(REMOTE, asked(project, suite))
    assert "which workers do not have" in problem.message
    assert problem.line == 5


def test_a_task_that_lacks_a_variable_is_refused_by_name_since_workers_have_no_row_for_it(
    tmp_path: Path,
) -> None:
    """Elsewhere the others run."""
    for name, toml in (("one", '[verifier]\nenv = { KEY = "${JUDGE_KEY}" }\n'), ("two", "")):
        (tmp_path / name / "tests").mkdir(parents=True)
        (tmp_path / name / "task.toml").write_text(f'{toml}[environment]\ndocker_image = "debian:trixie"\n')
        (tmp_path / name / "instruction.md").write_text("Do it.\n")
        (tmp_path / name / "tests/test.sh").write_text("exit 0\n")
        (tmp_path / name / "solution").mkdir()
        (tmp_path / name / "solution/solve.sh").write_text("exit 0\n")
    request = RunRequest(tmp_path, cwd=tmp_path, environ={}, targets=("oracle",))
    assert [suite.name for suite in prepare(request).loaded.suites if suite.lacking] == ["one"]
    with pytest.raises(InputError, match="JUDGE_KEY is not set") as refused:
        prepare(replace(request, cluster="tcp://127.0.0.1:1"))
    assert [problem.line for problem in refused.value.problems] == [2]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("local:0", "not local:N"),
        ("local:x", "not local:N"),
        ("local:65", "at most 64"),
        ("tcp://host", "not tcp://HOST:PORT"),
        ("tls://host:99999", "not tcp://HOST:PORT"),
        ("http://host:1", "not the address of a cluster"),
        ("nothing.json", "not the address of a cluster"),
        ("broken.json", "not a file that a Dask scheduler wrote"),
    ],
)
def test_a_bad_address_says_what_may_be_written(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "broken.json").write_text("[]")
    with pytest.raises(InputError, match=says) as raised:
        parse_address(text, tmp_path)
    assert "local:N" in raised.value.problems[0].hint


def test_a_schedulers_file_and_addresses_are_read(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"address": "tls://10.0.0.1:8786", "workers": {}}))
    assert parse_address("s.json", tmp_path).scheduler == "tls://10.0.0.1:8786"
    assert parse_address("local:3", tmp_path).local == 3
    assert not list(parse_address("tcp://127.0.0.1:1", tmp_path).warnings())
    assert not list(parse_address("tls://10.0.0.1:1", tmp_path).warnings())
    [warning] = parse_address("tcp://10.0.0.1:1", tmp_path).warnings()
    assert "anyone who reaches the scheduler can run programs" in warning


def test_tls_without_certificates_names_the_variables(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ca-file, cert, key of the client not named") as raised:
        parse_address("tls://10.0.0.1:1", tmp_path).security("client")
    assert "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in raised.value.problems[0].hint


def test_a_parcel_has_templates_and_links_whole_and_no_secrets(tmp_path: Path) -> None:
    files = {".env": "KEY=secret", ".env.local": "KEY=secret", "template/.env.example": "kept", "a.txt": "a"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "template" / "hollow").mkdir()
    (tmp_path / "link").symlink_to("a.txt")
    (tmp_path / "out").symlink_to("/etc/passwd")
    suite = "workspace: {template: template}\ntests: [{id: a, input: go, criteria: x}]\n"
    packing = Packing(tmp_path.parent / "contents")
    parcel = packing.parcel(asked(tmp_path, suite))
    prefix = str(tmp_path).lstrip("/")
    files_by_path = {file.path.removeprefix(f"{prefix}/"): file for file in parcel.files}
    assert set(files_by_path) == {
        *("s.eval.yaml", "targets.yaml", "a.txt", "link"),
        *("template/.env.example", "template/hollow"),
    }
    assert files_by_path["link"].link == "a.txt"
    assert files_by_path["template/hollow"].blob is None


@pytest.mark.slow
def test_what_is_missing_is_said_where_dask_is_not_installed(tmp_path: Path) -> None:
    asked(tmp_path)
    blocked = "import sys; sys.modules['distributed'] = None; from agentv_sandbox.cli import main; main()"
    for args in (["run", "s.eval.yaml", "--cluster", "local:1"], ["worker", "tcp://127.0.0.1:1"]):
        done = subprocess.run(
            [sys.executable, "-c", blocked, *args], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert 'pip install ".[dask]"' in done.stderr


@pytest.mark.engine
@pytest.mark.docker
def test_a_worker_below_the_tier_that_it_is_to_have_never_asks_for_work(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "agentv_sandbox", "worker", "tcp://127.0.0.1:1", "--require-tier", "userns"]
    done = forkserver.run(argv, cwd=tmp_path, timeout=100)
    assert done.returncode == 3
    assert "userns is required" in done.stderr
