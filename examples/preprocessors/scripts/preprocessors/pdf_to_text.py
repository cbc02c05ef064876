"""PDF to text, page by page, with pypdf.

Reads the preprocessor protocol: {"path": ...} on standard input, text on standard output. A document whose
pages hold no text (a scan) and an encrypted one end as errors that say so.
"""

import json
import logging
import sys
from pathlib import Path

from pypdf import PdfReader

MAX_PAGES = 300
MAX_CHARS = 1_000_000


def main():
    logging.disable(logging.WARNING)  # what pypdf repairs on its own
    path = Path(json.load(sys.stdin)["path"])
    if not path.stat().st_size:
        sys.exit("the file is empty")
    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            sys.exit("the document is encrypted with a password")
        pages = len(reader.pages)
        text = document(reader, pages)
    except Exception as error:  # a broken file can make the library raise anything
        sys.exit(f"not a readable PDF: {type(error).__name__}: {error}")
    if text is None:
        sys.exit(f"the document has no text: {pages} pages, perhaps scanned images")
    sys.stdout.write(text)


def document(reader, pages):
    """Text of all pages, form fields last; None when there is none."""
    parts = []
    if reader.metadata and reader.metadata.title:
        parts.append(f"Title: {reader.metadata.title}")
    chars = 0
    found = False
    for number, page in enumerate(reader.pages[:MAX_PAGES], 1):
        text = "\n".join(line.rstrip() for line in page.extract_text().splitlines()).strip("\n")
        found = found or bool(text.strip())
        chars += len(text)
        if chars > MAX_CHARS:
            parts.append(f"(cut within page {number}: more than {MAX_CHARS} characters)")
            break
        parts.append(f"## Page {number}\n\n{text or '(no text on this page)'}")
    if pages > MAX_PAGES:
        parts.append(f"(cut: {pages - MAX_PAGES} more pages)")
    fields = {k: v for k, v in (reader.get_form_text_fields() or {}).items() if v}
    if fields:
        parts.append("## Form fields\n\n" + "\n".join(f"- {k}: {v}" for k, v in fields.items()))
    return "\n\n".join(parts) + "\n" if found or fields else None


if __name__ == "__main__":
    main()
