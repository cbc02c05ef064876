"""An image, a PDF, a workbook and a document, as programs of the trade wrote them, asked of every kind of target that a
run knows without a login: what each server and each program received, compared with the files.

What requests of each kind look like to the byte is in ``tests/llm/test_attachments.py``; what coding agents do with
files in ``tests/agents``.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping

import pytest

from tests.converters.inputs import INPUTS, SAMPLES
from tests.e2e.conftest import Done, Project
from tests.llm.servers import Asked, Server, stream_of

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("input-files")]

WORKBOOK = (SAMPLES.parent / "expected/xlsx-plain/libreoffice.xlsx.txt").read_text()
MODELS = {
    "chat": "openai, base_url: ROOT/chat",
    "responses": "openai, api_format: responses, base_url: ROOT/responses",
    "azure": "azure, endpoint: ROOT/azure",
    "openrouter": "openrouter, base_url: ROOT/openrouter/v1",
    "anthropic": "anthropic, base_url: ROOT/anthropic",
    "gemini": "gemini, base_url: ROOT/gemini/v1beta",
}
SUITE = """
name: inputs
execution: {targets: [program, canned, MODELS], workers: 4}
preprocessors:
  - {type: xlsx, command: ['builtin:xlsx-plain']}
  - {type: docx, command: [python3, docx_text.py]}
tests:
  - id: look
    input:
      - role: user
        content:
          - {type: text, value: What is in these?}
          - {type: image, value: in/plot.png}
          - {type: file, value: in/paper.pdf}
          - {type: file, value: in/sales.xlsx}
          - {type: file, value: in/letter.docx}
    assertions: [{type: regex, value: '.'}]
"""
AGENT = """
import glob, hashlib, json, sys
prompt, output, *files = sys.argv[1:]
found = {path: hashlib.sha256(open(path, "rb").read()).hexdigest() for path in files}
json.dump({"text": json.dumps({"prompt": open(prompt).read(), "files": found})}, open(output, "w"))
"""
DOCX_TEXT = """
import json, re, sys, zipfile
xml = zipfile.ZipFile(json.load(sys.stdin)["path"]).read("word/document.xml").decode()
print(" ".join(re.findall(r"<w:t[^>]*>([^<]+)</w:t>", xml)))
"""


def texts_of(text: str) -> str:
    """What ``DOCX_TEXT`` prints of the document."""
    xml = zipfile.ZipFile(io.BytesIO(INPUTS["in/letter.docx"])).read("word/document.xml").decode()
    return text.join(re.findall(r"<w:t[^>]*>([^<]+)</w:t>", xml))


def in_json(text: str) -> str:
    return json.dumps(text.strip(), ensure_ascii=False)[1:-1]


@pytest.fixture(scope="module")
def ran(
    tmp_path_factory: pytest.TempPathFactory, tool_image: str
) -> Iterator[tuple[Done, Mapping[str, Asked]]]:
    project = Project(tmp_path_factory.mktemp("inputs"))
    for name, data in INPUTS.items():
        (project.folder / name).parent.mkdir(exist_ok=True)
        (project.folder / name).write_bytes(data)
    with Server([lambda asked: stream_of(asked, "A plot.")]) as server:
        root = server.url.removesuffix("/v1")
        models = "".join(
            f"  - {{name: {name}, provider: {text.replace('ROOT', root)}, model: m, api_key: '${{{{ KEY }}}}'}}\n"
            for name, text in MODELS.items()
        )
        project.write(
            {
                "s.eval.yaml": SUITE.replace("MODELS", ", ".join(MODELS)),
                "targets.yaml": "targets:\n  - {name: canned, provider: mock, response: A plot.}\n"
                "  - name: program\n    provider: cli\n"
                "    command: python3 agent.py {PROMPT_FILE} {OUTPUT_FILE} {FILES}\n" + models,
                "agent.py": AGENT,
                "docx_text.py": DOCX_TEXT,
            }
        )
        done = project.run("s.eval.yaml", env={"KEY": "k"})
    asked = {each.path.split("/")[1]: each for each in server.asked}
    assert len(server.asked) == len(asked) == len(MODELS), done.stdout + done.stderr
    yield done, asked


def rows_of(done: Done) -> Mapping[str, dict[str, object]]:
    return {
        row["target"]: row for row in map(json.loads, (done.folder / "index.jsonl").read_text().splitlines())
    }


def test_every_target_answers(ran: tuple[Done, Mapping[str, Asked]]) -> None:
    done, _ = ran
    assert done.code == 0, done.stdout + done.stderr
    assert {row["execution_status"] for row in rows_of(done).values()} == {"ok"}
    assert set(rows_of(done)) == {"program", "canned", *MODELS}


def test_the_program_reads_each_file_to_the_byte_and_its_prompt_names_it(
    ran: tuple[Done, Mapping[str, Asked]],
) -> None:
    done, _ = ran
    answer = done.folder / str(rows_of(done)["program"]["answer_path"])
    received = json.loads(answer.read_text())
    assert received["files"] == {
        f"/input/{name}": hashlib.sha256(data).hexdigest() for name, data in INPUTS.items()
    }
    assert all(f'<file: path="/input/{name}">' in received["prompt"] for name in INPUTS)


@pytest.mark.parametrize("kind", MODELS)
def test_the_server_gets_image_and_pdf_as_they_are_and_the_text_of_the_others(
    ran: tuple[Done, Mapping[str, Asked]], kind: str
) -> None:
    raw = ran[1][kind].raw.decode()
    for name in ("in/plot.png", "in/paper.pdf"):
        assert raw.count(base64.b64encode(INPUTS[name]).decode()) == 1
    assert f'<file path=\\"in/sales.xlsx\\">\\n{in_json(WORKBOOK)}' in raw
    letter = in_json(texts_of(" "))
    assert letter and f'<file path=\\"in/letter.docx\\">\\n{letter}' in raw
    assert base64.b64encode(INPUTS["in/sales.xlsx"][:60]).decode()[:60] not in raw
