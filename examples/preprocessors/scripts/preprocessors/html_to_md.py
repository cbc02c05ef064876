"""HTML to markdown, with markdownify.

Reads the preprocessor protocol: {"path": ...} on standard input, text on standard output. Scripts, styles and
hidden elements are left out.
"""

import json
import re
import sys
from pathlib import Path

from bs4 import BeautifulSoup
from markdownify import MarkdownConverter

MAX_BYTES = 8 << 20


class Converter(MarkdownConverter):
    def convert_img(self, element, text, parent_tags):
        if (element.get("src") or "").startswith("data:"):
            return f"(image: {element.get('alt') or 'inline'})"
        return super().convert_img(element, text, parent_tags)

    def convert_a(self, element, text, parent_tags):
        if (element.get("href") or "").strip().lower().startswith("javascript:"):
            return text
        return super().convert_a(element, text, parent_tags)

    def convert_td(self, element, text, parent_tags):
        return super().convert_td(element, text.replace("|", "\\|"), parent_tags)


def main():
    with Path(json.load(sys.stdin)["path"]).open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    if not data.strip():
        sys.exit("the file is empty")
    soup = BeautifulSoup(data[:MAX_BYTES], "lxml")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for element in soup(["script", "style", "noscript", "template", "svg", "head"]):
        element.decompose()
    hidden = re.compile(r"display:\s*none", re.IGNORECASE)
    for element in soup.select("[hidden]") + soup.find_all(style=hidden):
        if not element.decomposed:
            element.decompose()
    try:
        text = Converter(heading_style="ATX", bullets="-").convert_soup(soup)
    except RecursionError:
        sys.exit("the elements are nested too deeply")
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.splitlines())).strip()
    if title and not text.startswith(f"# {title}"):
        sys.stdout.write(f"Title: {title}\n\n")
    sys.stdout.write(text + "\n")
    if len(data) > MAX_BYTES:
        sys.stdout.write(f"(cut: only the first {MAX_BYTES} bytes were read)\n")


if __name__ == "__main__":
    main()
