"""The example that people see first, run for real."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agentv_sandbox.engines.docker.engine import DockerEngine
from agentv_sandbox.models.container import Command, ContainerSpec, Mount
from agentv_sandbox.rows.record import Row
from agentv_sandbox.rows.rowfile import read_rows
from tests import forkserver
from tests.examples import clone, run_as_shown
from tests.pagedata import blocks, details_of, index_of, page_text

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("demo")]

EXAMPLE = Path(__file__).parents[2] / "examples/quarterly-report"
SOUTH = "South,37481.9,32000,yes"


def run(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return command("run", *arguments, cwd=cwd)


def command(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return forkserver.command(*map(str, arguments), cwd=cwd, timeout=600)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In a clone of the repository, as who tries it out first has it."""
    return clone(tmp_path_factory.mktemp("demo") / "clone") / "examples" / EXAMPLE.name


@pytest.fixture(scope="module")
def demo(project: Path, engine: DockerEngine) -> Path:
    """The run folder of a whole run."""
    folder = project.parents[2] / "results"
    ran = run_as_shown(project.name, project.parents[1], folder)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.rstrip().split("\n")[-1].startswith("RESULT: PASS  (6/6 scored")
    return folder


def rows_of(folder: Path) -> dict[str, Row]:
    read = read_rows(folder)
    assert not read.problems
    return {row["test_id"]: row for row in read.rows}


def test_every_test_passes_and_is_graded_by_all_of_its_graders(demo: Path) -> None:
    rows = rows_of(demo)
    assert {test_id: len(row["scores"]) for test_id, row in rows.items()} == {
        "workbook": 3,
        "chart": 3,
        "handout": 2,
        "figures": 2,
        "fix-converter": 2,
        "contained": 3,
    }
    assert all(row["score"] == 1.0 for row in rows.values())


def test_the_grader_is_asked_with_the_workbook_as_text(demo: Path) -> None:
    prompt = json.loads((demo / rows_of(demo)["workbook"]["prompts_dir"] / "reads-well.json").read_text())
    assert "[[ file: out/q3-report.xlsx ]]" in json.dumps(prompt["request"])
    assert SOUTH in prompt["request"]["user_prompt"]


def test_files_are_kept_by_content_and_the_change_as_a_diff(demo: Path) -> None:
    rows = rows_of(demo)
    (file,) = json.loads((demo / rows["workbook"]["manifest_path"]).read_text())["files"]
    assert file["path"] == "out/q3-report.xlsx"
    assert (demo / "artifacts/sha256" / file["sha256"]).read_bytes().startswith(b"PK")
    diff = (demo / rows["fix-converter"]["diff_path"]).read_text()
    assert "-    return round(amount_usd * usd_per_eur, 2)" in diff
    assert "+    return round(amount_usd / usd_per_eur, 2)" in diff


def _append(name: str, data: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with (folder / name).open("ab") as file:
            file.write(data)

    return change


def _replaced(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        data = (folder / name).read_bytes()
        assert old in data
        (folder / name).write_bytes(data.replace(old, new))

    return change


def _content_of_another(folder: Path) -> None:
    first, second, *_ = sorted((folder / "artifacts/sha256").iterdir())
    first.write_bytes(second.read_bytes())


def _link(folder: Path) -> None:
    (folder / "run.json").unlink()
    (folder / "run.json").symlink_to("/etc/hostname")


def _swapped(folder: Path) -> None:
    one, two = (folder / "quarterly-report" / name / "grading.json" for name in ("workbook", "chart"))
    text = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(text)


def _with_its_sum(folder: Path) -> None:
    data = (folder / "index.jsonl").read_bytes()
    _append("index.jsonl", b"\n")(folder)
    before, after = (hashlib.sha256(each).hexdigest().encode() for each in (data, data + b"\n"))
    _replaced("SHA256SUMS", before, after)(folder)


TAMPERINGS: Mapping[str, tuple[Callable[[Path], None], str]] = {
    "a score": (_replaced("index.jsonl", b'"score":1.0', b'"score":0.9'), "index.jsonl: was altered"),
    "a row more": (_append("index.jsonl", b"{}\n"), "index.jsonl: was altered"),
    "what a file held": (_content_of_another, "was altered"),
    "what graders were given": (
        _replaced("quarterly-report/workbook/capture.json", b'"schema"', b'"Schema"'),
        "capture.json: was altered",
    ),
    "a verdict of another test": (_swapped, "grading.json: was altered"),
    "an answer less": (
        lambda f: (f / "quarterly-report/chart/outputs/answer.md").unlink(),
        "answer.md: is missing",
    ),
    "a file more": (lambda f: (f / "quarterly-report/more.txt").write_text("x"), "more.txt': was added"),
    "a link": (_link, "run.json: is not a plain file"),
    "the image's name": (_append("run.json", b" "), "run.json: was altered"),
    "a file and its sum": (_with_its_sum, "SHA256SUMS: is not the one that --digest names"),
}


def test_the_packed_demo_is_checked_and_graded_again_in_another_place(
    demo: Path, project: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "demo.run.tar.zst"
    done = command("pack", demo, "-o", packed, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    digest = done.stdout.split()[-1]
    there = Path(shutil.copytree(project.parents[1], tmp_path / "there")) / "examples" / EXAMPLE.name
    assert command("unpack", packed, "-o", "got", cwd=there).returncode == 0
    assert command("verify", "got", "--digest", digest, cwd=there).returncode == 0
    for name, (tamper, said) in TAMPERINGS.items():
        bad = Path(shutil.copytree(there / "got", tmp_path / "bad"))
        tamper(bad)
        done = command("verify", bad, "--digest", digest, cwd=there)
        assert done.returncode in (1, 2) and said in done.stderr, (name, done.stdout + done.stderr)
        shutil.rmtree(bad)

    suites = [word for path in sorted(there.glob("*.eval.yaml")) for word in ("--suite", path.name)]
    done = command("regrade", "got", *suites, "-o", "again", cwd=there)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Graded again: 6 tests, all as before." in done.stdout
    before, after = rows_of(demo), rows_of(there / "again")
    assert {name: row["score"] for name, row in after.items()} == {
        name: r["score"] for name, r in before.items()
    }
    assert {row["regraded_from"]["sha256"] for row in after.values()} == {digest.removeprefix("sha256:")}
    assert command("verify", "got", "--digest", digest, cwd=there).returncode == 0  # it is as it was


def test_an_intruder_that_is_shown_the_graders_is_found_out(demo: Path, project: Path) -> None:
    broken = Path(shutil.copytree(project, project.parents[2] / "broken"))
    targets = broken / ".agentv/targets.yaml"
    command = "command: python3 agents/intruder.py {PROMPT_FILE} {OUTPUT_FILE} {FILES}\n"
    assert command in targets.read_text()
    targets.write_text(targets.read_text().replace(command, f'{command}    files: ["graders/**"]\n'))
    ran = run("security.eval.yaml", "--output", broken / "results", cwd=broken)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    failed = [
        a["text"]
        for s in rows_of(broken / "results")["contained"]["scores"]
        for a in s["assertions"]
        if not a["passed"]
    ]
    assert "the answer key is in nothing that it left" in failed


def test_wrong_figures_fail(demo: Path, project: Path) -> None:
    careless = Path(shutil.copytree(project, project.parents[2] / "careless"))
    agent = careless / "agents/report_agent.py"
    right = 'elif row["order_id"] in seen:'
    assert right in agent.read_text()
    agent.write_text(agent.read_text().replace(right, "elif False:"))
    ran = run("quarterly.eval.yaml", "--test-id", "workbook", "--output", careless / "results", cwd=careless)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "figures-are-right: " in ran.stdout and rows_of(careless / "results")["workbook"]["score"] == 0


def test_its_page_shows_the_workbook_as_text_and_the_chart_as_a_picture(demo: Path) -> None:
    page = demo / "report.html"
    names = [row["test"] for row in index_of(page)["rows"]]
    details = dict(zip(names, details_of(page), strict=True))
    (workbook,) = details["workbook"]["files"]
    assert SOUTH in workbook["converted"] and blocks(page)[f"file-{workbook['file']}"].startswith(b"PK")
    assert [file.get("raster") for file in details["chart"]["files"]] == ["image/png"]
    assert [prompt["grader"] for prompt in details["workbook"]["prompts"]] == ["reads-well"]
    assert "Network is unreachable" in page_text(page), "what stopped the intruder"
    assert "\x1b" not in page.read_text()
    assert details["contained"]["skipped"][0] == [".git", "folder .git is not collected"]


@pytest.mark.docker
def test_a_masked_place_of_the_kernel_is_not_taken_for_an_open_one(
    engine: DockerEngine, tool_image: str, tmp_path: Path
) -> None:
    """/proc/kcore is there on most machines, and empty in a container."""
    script, empty = tmp_path / "intruder.py", tmp_path / "empty"
    script.write_bytes((EXAMPLE / "agents/intruder.py").read_bytes())
    empty.touch()
    for path in (script, empty):
        path.chmod(0o644)
    spec = ContainerSpec(
        image=tool_image,
        argv=(
            "sh",
            "-c",
            "cd /tmp; python3 /opt/intruder.py prompt out.txt data.csv > /dev/null; cat findings.json",
        ),
        role="agent",
        user="1000:1000",
        mounts=(
            Mount(source=str(script), target="/opt/intruder.py", kind="bind"),
            Mount(source=str(empty), target="/dev/mem", kind="bind"),
        ),
    )
    result = engine.run(Command(spec=spec))
    (found,) = [entry for entry in json.loads(result.stdout) if "disks" in entry["attempt"]]
    assert found["got"] == ""
    assert "/dev/mem: empty" in found["stopped_by"]
