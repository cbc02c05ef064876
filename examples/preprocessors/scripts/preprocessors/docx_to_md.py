"""Word document (.docx) to markdown, with python-docx.

Reads the preprocessor protocol: {"path": ...} on standard input, text on standard output. Headings, lists,
tables, bold, italics, links, headers and footers are kept; images are named; deleted text of tracked changes
is left out and inserted text is kept; footnotes and comments follow at the end.
"""

import json
import re
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

from docx import Document
from docx.oxml.ns import qn
from docx.table import Table
from docx.text.hyperlink import Hyperlink
from docx.text.run import Run

MAX_BLOCKS = 20_000
WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def main():
    path = Path(json.load(sys.stdin)["path"])
    with path.open("rb") as stream:
        start = stream.read(8)
    if not start:
        sys.exit("the file is empty")
    if start.startswith(b"\xd0\xcf\x11\xe0"):
        sys.exit("the document is encrypted, or an old .doc file")
    try:
        document = Document(str(path))
        blocks = list(body(document))
        for part in ("footnotes", "endnotes", "comments"):
            blocks += notes(path, part)
    except Exception as error:  # a broken file can make the library raise anything
        sys.exit(f"not a readable .docx file: {str(error).replace(str(path), path.name)}")
    sys.stdout.write(joined(blocks[:MAX_BLOCKS]))
    if len(blocks) > MAX_BLOCKS:
        sys.stdout.write(f"\n(cut: {len(blocks) - MAX_BLOCKS} more paragraphs)\n")


def body(document):
    margins = [("Header", s.header) for s in document.sections] + [
        ("Footer", s.footer) for s in document.sections
    ]
    seen = set()
    for name, margin in margins:
        text = " ".join(p.text.strip() for p in margin.paragraphs if p.text.strip())
        if name == "Header" and text and text not in seen:
            seen.add(text)
            yield f"({name}: {text})"
    for block in document.iter_inner_content():
        yield table(block) if isinstance(block, Table) else paragraph(block)
    for name, margin in margins:
        text = " ".join(p.text.strip() for p in margin.paragraphs if p.text.strip())
        if name == "Footer" and text and text not in seen:
            seen.add(text)
            yield f"({name}: {text})"


def paragraph(block):
    text = inline(block).strip()
    if not text:
        return ""
    style = (block.style.name or "").lower() if block.style is not None else ""
    heading = re.fullmatch(r"heading (\d)", style)
    if heading or style == "title":
        return "#" * (int(heading[1]) if heading else 1) + " " + text.replace("**", "")
    if "quote" in style or "block text" in style:
        return "> " + text
    if "code" in style or "preformatted" in style or "verbatim" in style:
        return "    " + text
    level, ordered = list_level(block, style)
    if level is not None:
        return "  " * level + ("1. " if ordered else "- ") + text
    return text


def list_level(block, style):
    """(level, is numbered) of a list item; (None, False) for other paragraphs."""
    number = block._p.find(f".//{WORD}numPr")
    if number is None and block.style is not None:
        number = block.style.element.find(f".//{WORD}numPr")
    if number is None and not style.startswith(("list bullet", "list number")):
        return None, False
    value = {child.tag: child.get(qn("w:val")) for child in number} if number is not None else {}
    level = int(value.get(qn("w:ilvl")) or re.sub(r"\D", "", style) or 1) - (qn("w:ilvl") not in value)
    if value.get(qn("w:numId")) == "0":
        return None, False
    return min(max(level, 0), 8), is_ordered(block, value.get(qn("w:numId")), level) or "list number" in style


def is_ordered(block, number_id, level):
    try:
        numbering = block.part.numbering_part.element
    except (KeyError, NotImplementedError):
        return False
    for num in numbering.findall(qn("w:num")):
        if num.get(qn("w:numId")) == number_id:
            abstract = num.find(qn("w:abstractNumId")).get(qn("w:val"))
            for kind in numbering.findall(qn("w:abstractNum")):
                if kind.get(qn("w:abstractNumId")) == abstract:
                    for lvl in kind.findall(qn("w:lvl")):
                        if lvl.get(qn("w:ilvl")) == str(level):
                            form = lvl.find(qn("w:numFmt"))
                            return form is not None and form.get(qn("w:val")) not in ("bullet", "none")
    return False


def inline(block):
    """Text with emphasis and links, pieces of one look joined."""
    pieces = []
    for child in block._p.iter(qn("w:r"), qn("w:hyperlink")):
        if child.tag == qn("w:hyperlink"):
            link = Hyperlink(child, block)
            target = link.url or ""
            pieces.append((f"[{link.text}]({target})" if target else link.text, ""))
        elif child.getparent().tag not in (qn("w:hyperlink"), qn("w:del")):
            run = Run(child, block)
            mark = ("**" if run.bold else "") + ("_" if run.italic else "")
            image = child.find(".//{*}docPr")
            if image is not None:
                pieces.append((f"(image: {image.get('descr') or image.get('name') or 'unnamed'})", ""))
            pieces.append((run.text, mark if run.text.strip() else ""))
    out, look, text = [], "", ""
    for piece, mark in [*pieces, ("", None)]:
        if mark != look:
            lead, core, tail = re.fullmatch(r"(\s*)(.*?)(\s*)", text, re.DOTALL).groups()
            out.append(f"{lead}{look}{core}{look[::-1]}{tail}" if core else text)
            look, text = mark, ""
        text += piece
    return "".join(out)


def table(block):
    rows = []
    for row in block.rows:
        cells, last = [], None
        for cell in row.cells:
            same = cell._tc is last  # a merged cell is listed once for each column that it spans
            last = cell._tc
            text = " ".join(" ".join(inline(p).split()) for p in cell.paragraphs if p.text.strip())
            cells.append("" if same else text.replace("|", "\\|"))
        rows.append("| " + " | ".join(cells) + " |")
    if rows:
        rows.insert(1, "|" + " --- |" * len(block.columns))
    return "\n".join(rows)


def notes(path, part):
    """Footnotes, endnotes or comments, which python-docx does not offer, one line each."""
    with zipfile.ZipFile(path) as archive:
        name = f"word/{part}.xml"
        if name not in archive.namelist() or archive.getinfo(name).file_size > 16 << 20:
            return
        root = ElementTree.fromstring(archive.read(name))
    for number, note in enumerate((n for n in root if n.get(f"{WORD}type") is None), 1):
        text = " ".join("".join(t.text or "" for t in note.iter(f"{WORD}t")).split())
        if text:
            author = note.get(f"{WORD}author")
            yield f"({part[:-1].capitalize()} {number}{f' by {author}' if author else ''}: {text})"


def joined(blocks):
    """Blocks with an empty line between, list items without."""
    out, before = [], None
    for block in blocks:
        if block:
            item = re.match(r" *(- |1\. )", block) is not None
            if before is not None:
                out.append("\n" if item and before else "\n\n")
            out.append(block)
            before = item
    return "".join(out) + "\n"


if __name__ == "__main__":
    main()
