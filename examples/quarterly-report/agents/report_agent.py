"""The agent of this example: does by script what an LLM agent would do with its tools.

    report_agent.py TEST_ID PROMPT_FILE OUTPUT_FILE INPUT_FILE...

It works in its workspace (the current directory), writes files there, and answers with one JSON document: text,
references to files, token use and tool calls, as any agent behind a `cli` target may.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from openpyxl import Workbook
from openpyxl.styles import Font
from PIL import Image, ImageDraw, ImageFont

OUT = Path("out")


@dataclass(frozen=True)
class Figures:
    by_region: dict[str, float]
    by_month: dict[str, float]
    targets: dict[str, float]
    duplicates: int

    @property
    def total(self) -> float:
        return round(sum(self.by_region.values()), 2)


def read_figures(files: list[Path]) -> Figures:
    """Totals in EUR. The export has its quirks: an order may occur twice, regions are typed by hand."""
    by_region: dict[str, float] = defaultdict(float)
    by_month: dict[str, float] = defaultdict(float)
    targets: dict[str, float] = {}
    seen: set[str] = set()
    duplicates = 0
    for path in files:
        with path.open(newline="") as stream:
            for row in csv.DictReader(stream):
                if "q3_target_eur" in row:
                    targets[row["region"]] = float(row["q3_target_eur"])
                elif row["order_id"] in seen:
                    duplicates += 1
                else:
                    seen.add(row["order_id"])
                    amount = int(row["units"]) * float(row["unit_price_eur"])
                    by_region[row["region"].strip().title()] += amount
                    by_month[row["date"][:7]] += amount
    return Figures(
        {k: round(v, 2) for k, v in sorted(by_region.items())},
        {k: round(v, 2) for k, v in sorted(by_month.items())},
        targets,
        duplicates,
    )


def write_workbook(figures: Figures) -> Path:
    book = Workbook()
    sheet = book.active
    sheet.title = "Regions"
    sheet.append(["Region", "Revenue EUR", "Target EUR", "Reached"])
    for region, revenue in figures.by_region.items():
        target = figures.targets[region]
        sheet.append([region, revenue, target, "yes" if revenue >= target else "no"])
    sheet.append(["Total", figures.total, sum(figures.targets.values()), ""])
    months = book.create_sheet("Months")
    months.append(["Month", "Revenue EUR"])
    for month, revenue in figures.by_month.items():
        months.append([month, revenue])
    for page in book:
        for cell in page[1]:
            cell.font = Font(bold=True)
    path = OUT / "q3-report.xlsx"
    book.save(path)
    return path


def draw_chart(figures: Figures) -> Image.Image:
    """Bars of the revenue by month."""
    width, height, margin = 640, 400, 50
    image = Image.new("RGB", (width, height), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default()
    draw.text((margin, 15), "Revenue Q3 2025 by month (EUR)", fill="black", font=font)
    peak = max(figures.by_month.values())
    step = (width - 2 * margin) // len(figures.by_month)
    for number, (month, revenue) in enumerate(figures.by_month.items()):
        left = margin + number * step
        top = height - margin - int(revenue / peak * (height - 3 * margin))
        draw.rectangle((left + 15, top, left + step - 15, height - margin), fill=(39, 94, 160))
        draw.text((left + 20, top - 15), f"{revenue:,.0f}", fill="black", font=font)
        draw.text((left + 20, height - margin + 8), month, fill="black", font=font)
    return image


def workbook(figures: Figures) -> list[dict[str, object]]:
    path = write_workbook(figures)
    missed = [region for region, revenue in figures.by_region.items() if revenue < figures.targets[region]]
    text = (
        f"Total revenue in Q3 2025 was {figures.total:.2f} EUR. Below target: {', '.join(missed)}. "
        f"{figures.duplicates} orders occurred twice in the export and were counted once."
    )
    return [text_block(text), file_block(path, "xlsx")]


def chart(figures: Figures) -> list[dict[str, object]]:
    path = OUT / "chart.png"
    draw_chart(figures).save(path)
    best = max(figures.by_month, key=lambda month: figures.by_month[month])
    text = f"The best month was {best} with {figures.by_month[best]:.2f} EUR."
    return [text_block(text), {"type": "image", "media_type": "image/png", "source": str(path)}]


def handout(figures: Figures) -> list[dict[str, object]]:
    path = OUT / "handout.pdf"
    pages = [draw_chart(figures), Image.new("RGB", (640, 400), "white")]
    draw = ImageDraw.Draw(pages[1])
    for line, (region, revenue) in enumerate(figures.by_region.items()):
        draw.text((50, 50 + 25 * line), f"{region}: {revenue:,.2f} EUR", fill="black")
    pages[0].save(path, save_all=True, append_images=pages[1:])
    return [
        text_block("The handout has two pages: a chart and the figures by region."),
        file_block(path, "pdf"),
    ]


def figures_json(figures: Figures) -> list[dict[str, object]]:
    path = OUT / "figures.json"
    path.write_text(json.dumps({"quarter": "2025-Q3", "total": figures.total, "regions": figures.by_region}))
    return [text_block(f"Wrote the figures of {len(figures.by_region)} regions."), file_block(path, "json")]


def fix_converter(_: Figures) -> list[dict[str, object]]:
    path = Path("tools/convert.py")
    source = path.read_text()
    path.write_text(
        source.replace(
            "return round(amount_usd * usd_per_eur, 2)", "return round(amount_usd / usd_per_eur, 2)"
        )
    )
    return [text_block("to_eur() multiplied by the rate. The rate is USD per EUR, so it must divide. Fixed.")]


JOBS = {
    "workbook": workbook,
    "chart": chart,
    "handout": handout,
    "figures": figures_json,
    "fix-converter": fix_converter,
}


def text_block(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def file_block(path: Path, media_type: str) -> dict[str, object]:
    return {"type": "file", "path": str(path), "media_type": media_type}


def main() -> None:
    test_id, prompt_file, output_file, *input_files = sys.argv[1:]
    prompt = Path(prompt_file).read_text()
    print(f"working on {test_id}: {len(prompt)} characters, {len(input_files)} input files")
    OUT.mkdir(exist_ok=True)
    before = {path for path in Path().rglob("*") if path.is_file()}
    content = JOBS[test_id](read_figures([Path(name) for name in input_files]))
    calls = [{"tool": "Read", "input": {"file_path": name}, "status": "ok"} for name in input_files]
    for path in sorted({path for path in Path().rglob("*") if path.is_file()} - before):
        calls.append({"tool": "Write", "input": {"file_path": str(path)}, "status": "ok"})
    answer = {
        "output": [{"role": "assistant", "content": content, "tool_calls": calls}],
        "token_usage": {"input": len(prompt) // 4, "output": 180},
        "cost_usd": 0.0021,
    }
    Path(output_file).write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
