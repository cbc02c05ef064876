"""Jupyter notebook (.ipynb) to markdown, with Python's standard library alone.

Reads the preprocessor protocol: {"path": ...} on standard input, text on standard output. Cells come in order
with their outputs; images and other rich outputs are named by type and size, errors without terminal colours.
"""

import json
import re
import sys
from pathlib import Path

MAX_BYTES = 64 << 20
MAX_OUTPUT_CHARS = 20_000  # of one output

ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def main():
    with Path(json.load(sys.stdin)["path"]).open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    if not data.strip():
        sys.exit("the file is empty")
    if len(data) > MAX_BYTES:
        sys.exit(f"the notebook is larger than {MAX_BYTES} bytes")
    try:
        notebook = json.loads(data)
        if not isinstance(notebook, dict):
            raise ValueError("no notebook object")
        cells = notebook.get("cells")
        if cells is None:  # format 3
            cells = [cell for sheet in notebook["worksheets"] for cell in sheet["cells"]]
        language = notebook.get("metadata", {}).get("kernelspec", {}).get("language") or "python"
        parts = [part for cell in cells for part in cell_parts(cell, language)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        sys.exit(f"not a readable notebook: {type(error).__name__}: {error}")
    sys.stdout.write("\n\n".join(parts) + "\n")


def cell_parts(cell, language):
    source = joined(cell.get("source", cell.get("input", "")))
    kind = cell["cell_type"]
    if kind == "heading":
        yield "#" * cell.get("level", 1) + " " + source
    elif kind == "code":
        number = cell.get("execution_count", cell.get("prompt_number"))
        yield f"In [{number if number is not None else ' '}]:\n" + fence(
            source, cell.get("language") or language
        )
        for output in cell.get("outputs", []):
            yield from output_parts(output)
    elif source.strip():
        yield source


def output_parts(output):
    kind = output["output_type"]
    if kind in ("error", "pyerr"):
        trace = ESCAPES.sub("", joined(output.get("traceback", []), "\n"))
        yield "Error:\n" + fence(cut(trace or f"{output.get('ename')}: {output.get('evalue')}"))
        return
    if kind == "stream":
        yield f"{output.get('name', output.get('stream', 'stdout'))}:\n" + fence(
            cut(joined(output.get("text", "")))
        )
        return
    data = output.get("data")
    if data is None:  # format 3 has short names beside the output's own keys
        data = {
            k: v for k, v in output.items() if k in ("text", "html", "png", "jpeg", "svg", "latex", "json")
        }
    for name in data:
        if name.startswith("image/") or name in ("png", "jpeg", "svg"):
            yield f"(image output: {name}, {len(joined(data[name]))} characters)"
    for name in ("text/markdown", "text/latex", "text/plain", "text"):
        if name in data:
            yield "Out:\n" + fence(cut(joined(data[name])))
            return


def joined(value, separator=""):
    return value if isinstance(value, str) else separator.join(value)


def cut(text):
    text = ESCAPES.sub("", text)
    rest = len(text) - MAX_OUTPUT_CHARS
    return text if rest <= 0 else f"{text[:MAX_OUTPUT_CHARS]}\n(cut: {rest} more characters)"


def fence(text, language=""):
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"


if __name__ == "__main__":
    main()
