"""Cuts, streams, files and hostile texts."""

from __future__ import annotations

import ast
import base64
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentv_sandbox import masking
from agentv_sandbox.agents.container import bad_end
from agentv_sandbox.base.logs import safe_name, safe_text
from agentv_sandbox.engines.stream import BoundedCapture
from agentv_sandbox.masking import MASK, LineMasker, Masker
from agentv_sandbox.models.container import ExecResult
from agentv_sandbox.rows.redact import Redactor
from agentv_sandbox.steps.following import Followed

SECRET = "K7MDENG-bPxRfiCYEXAMPLEKEY-93"
CODED = base64.b64encode(SECRET.encode() * 4).decode()


@pytest.fixture(autouse=True)
def _known_secret() -> object:
    masking.know([SECRET])
    yield
    masking.forget()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 60), st.integers(1, 80))
def test_a_text_is_masked_before_it_is_cut(lead: int, most: int) -> None:
    text = "." * lead + SECRET + "." * (60 - lead)
    named = safe_name(text, limit=most)
    for cut in (masking.first(text, most), masking.last(text, most), safe_text(text, limit=most), named):
        left = cut.replace(MASK, "").partition("…")[0].strip(".")
        assert not any(left[at : at + 3] in SECRET for at in range(len(left) - 2)), cut
    assert len(masking.first(text, most)) <= most + len(MASK)


@pytest.mark.slow
def test_nobody_cuts_what_was_made_printable_by_themselves() -> None:
    """``safe_name(x)[:100]`` may leave half a secret; ``safe_name(x, limit=100)`` masks it first."""
    package = Path(masking.__file__).parents[1]
    cut = [
        f"{path.relative_to(package)}:{node.lineno}"
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).rpartition(".")[2] in ("safe_name", "safe_text")
    ]
    assert cut == []


@pytest.mark.parametrize("at", range(1990, 2020, 3))
def test_an_agents_last_words_hold_no_half_of_a_secret(at: int) -> None:
    said = (SECRET + "x" * at).encode()
    result = ExecResult(outcome="exited", exit_code=1, stdout=b"", stderr=said, stderr_total=len(said))
    assert not any(SECRET[start : start + 3] in str(bad_end(result)) for start in range(len(SECRET) - 2))


@pytest.mark.parametrize("lead", range(60, 101, 5))
def test_output_that_is_cut_in_its_middle_holds_no_half_of_a_secret(lead: int) -> None:
    capture = BoundedCapture(200)
    capture.write(b"." * lead + SECRET.encode() + b"." * 50)
    capture.write(b"," * (500 - lead) + SECRET.encode() + b"." * (100 - lead // 2))
    value = capture.value().replace(SECRET.encode(), b"")
    assert len(capture.value()) == 200
    assert not any(SECRET[start : start + 6].encode() in value for start in range(len(SECRET) - 5))


def test_base64_that_comes_line_by_line_is_masked() -> None:
    lines = LineMasker(Masker([SECRET]))
    for at in range(0, len(CODED), 20):
        shown = lines.line(CODED[at : at + 20].encode()).decode().replace(MASK, "")
        assert len(shown) <= 12, shown
    assert lines.line(b"an honest line") == b"an honest line"


def test_what_is_followed_is_masked_whatever_its_pieces() -> None:
    said: list[str] = []
    followed = Followed(said.append)
    data = f"before {SECRET} behind\n{CODED[:76]}\n".encode()
    for byte in data:
        followed.output(bytes((byte,)))
    followed.end()
    assert said[0] == f"before {MASK} behind" and MASK in said[1] and len(said) == 2


@pytest.mark.parametrize("shift", [-3000, -40, -8, -1, 0, 9])
def test_a_file_is_masked_across_its_pieces(tmp_path: Path, shift: int) -> None:
    spelled = "".join(f"&#{ord(char)};" for char in SECRET)
    path = tmp_path / "file"
    path.write_bytes(b"." * ((1 << 20) + shift) + spelled.encode() + b"." * 9000)
    assert Redactor([SECRET]).data_file(path)
    assert path.read_bytes().strip(b".") == MASK.encode()


PERIODIC = "ab" * 30
HOSTILE = {
    "escapes": "%4B",
    "escapes of escapes": "%25",
    "beginnings of escapes": "\\u00",
    "backslashes": "\\",
    "anchors": SECRET[:8],
    "anchors and escapes": f"{SECRET[:8]}%4B",
    "anchors in colours": f"{SECRET[:8]}\x1b[{'0' * 30}",
    "anchors in lines": f'{SECRET[12:20]}\n+ "> > ',
    "all but the last": f"{SECRET[:-1]}!",
    "periodic": "ab",
    "base64 without an end": f"{CODED[:30]}\n",
    "entities": "&#75;",
    "anchor, then marks": f"{SECRET[12:20]}{chr(92) * 400}",
    "anchor, then blanks": f"{SECRET[12:20]}{' ' * 400}",
}


@pytest.mark.slow
@pytest.mark.parametrize("what", HOSTILE)
def test_time_grows_with_the_text_alone(what: str) -> None:
    masker = Masker([SECRET, PERIODIC])
    masker.text("made before it is timed")

    def spent(size: int) -> float:
        text = HOSTILE[what] * (size // len(HOSTILE[what]))
        started = time.process_time()
        masker.text(text)
        return time.process_time() - started

    small = spent(1 << 14)
    assert spent(1 << 17) < 40 * small + 0.5  # eight times the text


def test_secrets_of_several_runs_in_one_process_are_known() -> None:
    masking.know(["another-secret-of-a-run"])
    assert masking.hide(f"{SECRET} another-secret-of-a-run") == f"{MASK} {MASK}"
