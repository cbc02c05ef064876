"""A code-grader gets the workbook itself: ``path`` is where it stands in the grader's container."""

import json
import sys
import zipfile

case = json.load(sys.stdin)
blocks = [b for m in case["messages"] if isinstance(m["content"], list) for b in m["content"]]
(workbook,) = [b for b in blocks if b.get("original_path") == "out/report.xlsx"]
with zipfile.ZipFile(workbook["path"]) as archive:
    is_workbook = "xl/workbook.xml" in archive.namelist()
as_text = "North,1200.5" in case["output"]  # config.preprocessed: true
assertions = [
    {"text": "the file is a workbook", "passed": is_workbook},
    {"text": "its text has the revenue of North", "passed": as_text},
]
print(json.dumps({"assertions": assertions}))
