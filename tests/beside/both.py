"""The same small suites on both sides, and what of their rows and requests is held against each other."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.agentv import agentv_command
from tests.forkserver import command

from .small import Models, Small, write

Json = Any
_BUILT_IN = re.compile(r"^You are an expert (?:grader|evaluator)\b|\[\[ ## answer ## \]\]", re.MULTILINE)
_SECTION = re.compile(r"^\[\[ ## (\w+) ## \]\](?: \(repeated.*)?\n", re.MULTILINE)
_ITEM = re.compile(r"^(?:- \[|### |Operator: |Description: |Score ranges:|  - Score ).*", re.MULTILINE)
_FENCE = re.compile(r"^<<<(?:BEGIN|END) UNTRUSTED \w+>>>\n?", re.MULTILINE)
_LAST_WORDS = re.compile(
    r"\n\n(?:For each (?:rubric|criterion)|Judge every rubric|Score every criterion)[^\n]*\Z"
)


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Of a run of either side."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("AGENTV_")}
    return {
        **kept,
        "STUB_KEY": "sk-stub-key",
        "STUB_MODEL": "m-1",
        "HOME": str(folder.parent / "home"),
        "NO_PROXY": "*",
        **more,
    }


def theirs(small: Small, folder: Path, models: Models) -> dict[str, Json]:
    """What AgentV makes of ``small``."""
    write(small, folder, models.url)
    out = folder / "out"
    words = [*agentv_command(), "eval", "run", small.file, "-o", str(out), *small.options]
    done = subprocess.run(
        words, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=120, check=False
    )
    kept = {"rows": rows(out), "asked": asked(models.asked(small.name))}
    if not kept["rows"]:
        kept["refused"] = True
    kept["said"] = done.stdout + done.stderr
    return plain(kept, folder, models)


def ours(small: Small, folder: Path, models: Models, engine: str = "native") -> dict[str, Json]:
    """What we make of it."""
    write(small, folder, models.url)
    out = folder / "out"
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    env = environment(folder, AGENTV_SANDBOX_ENGINE=engine, XDG_CACHE_HOME=cache)
    done = command("run", small.file, "-o", str(out), *small.options, cwd=folder, env=env)
    kept = {"rows": rows(out), "asked": asked(models.asked(small.name))}
    if done.returncode == 2 or not kept["rows"]:
        kept["refused"] = True
    kept["said"] = done.stdout + done.stderr
    return plain(kept, folder, models)


def rows(out: Path) -> dict[str, Json]:
    index = out / "index.jsonl"
    if not index.is_file():
        return {}
    found: dict[str, Json] = {}
    for line in index.read_text().splitlines():
        row = json.loads(line)
        found[f"{row['test_id']}@{row['target']}"] = essence(row)
    return dict(sorted(found.items()))


_SAME = ("suite", "category", "conversation_id", "metadata", "failure_stage", "failure_reason_code")


def essence(row: Mapping[str, Json]) -> Json:
    """What a reader of a row goes by."""
    usage = row.get("token_usage")
    return {
        "score": round(row["score"], 6),
        "status": row["execution_status"],
        **{key: row[key] for key in _SAME if row.get(key)},
        **(
            {"target_used": row["target_used"]} if row.get("target_used") not in (None, row["target"]) else {}
        ),
        **({"tokens": [usage.get("input"), usage.get("output")]} if usage else {}),
        "scores": [judgement(score) for score in row.get("scores", [])],
    }


_ADDED = ("agreement", "unanswered", "suspicious", "preprocessing")
"""Details that are ours alone."""


def judgement(score: Mapping[str, Json]) -> Json:
    details = {key: value for key, value in (score.get("details") or {}).items() if key not in _ADDED}
    return {
        "name": score.get("name"),
        "type": score.get("type"),
        "score": round(score["score"], 6),
        "verdict": score["verdict"],
        "weight": score.get("weight", 1),
        "assertions": [
            # What the JSON parsers themselves say differs.
            [a["text"].partition(" attempts: ")[0], a["passed"], a.get("evidence")]
            for a in score.get("assertions", [])
        ],
        **({"details": details} if details else {}),
        **({"scores": [judgement(member) for member in score["scores"]]} if score.get("scores") else {}),
    }


def asked(requests: Mapping[str, Sequence[Json]]) -> dict[str, Json]:
    """By target, in an order that does not depend on time."""
    kept = {
        who: [_request(each, judge=who == "judge") for each in each_of] for who, each_of in requests.items()
    }
    return {who: sorted(each, key=lambda a: json.dumps(a, sort_keys=True)) for who, each in kept.items()}


def _request(body: Json, *, judge: bool) -> Json:
    """What is asked: of a judge by a prompt of the suite's own, or by the sections of a built-in one, whose words are
    each side's own."""
    messages = [
        {"role": "system" if m["role"] == "developer" else m["role"], "content": _text(m["content"])}
        for m in body["messages"]
    ]
    rest = {key: value for key, value in body.items() if key != "messages"}
    if not judge:
        return {**rest, "messages": messages}
    user = "\n".join(m["content"] for m in messages if m["role"] == "user")
    return {**rest, "user": sections(user) if _BUILT_IN.search(user) else user}


def _text(content: Json) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def sections(prompt: str) -> dict[str, str]:
    """Of a built-in prompt, by their headings."""
    names = list(_SECTION.finditer(prompt))
    ends = [m.start() for m in names[1:]] + [len(prompt)]
    found: dict[str, str] = {}
    for match, end in zip(names, ends, strict=True):
        body = _LAST_WORDS.sub("", prompt[match.end() : end])
        found.setdefault(match[1], _FENCE.sub("", body).strip())
    for name in ("rubrics", "scoring_criteria"):
        if name in found:
            found[name] = "\n".join(_ITEM.findall(found[name]))
    return found


def plain(value: Json, folder: Path, models: Models) -> Json:
    """``value`` without what differs from run to run."""
    text = json.dumps(value)
    for written, stand_in in (
        (json.dumps(str(folder))[1:-1], "<folder>"),
        (models.url, "<models>"),
        ("/input/", "<folder>/"),
        ("/suite/", "<folder>/"),
    ):
        text = text.replace(written, stand_in)
    return json.loads(text)
