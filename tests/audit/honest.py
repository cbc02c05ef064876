"""Suites without a flaw, each with something near one: nothing of them may be reported."""

from __future__ import annotations

from tests.audit.planted import CALC, FIX_IT, JUDGED, SPACE, Case, ask, code, grader, shell

PATCH = (
    "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n"
)
APART = grader(
    "import subprocess\n"
    "call = 'import sys; sys.path.insert(0, sys.argv[1]); import calc; print(calc.add(7, 8), calc.add(-1, 4))'\n"
    "ran = subprocess.run([sys.executable, '-I', '-B', '-c', call, str(ws)], capture_output=True, text=True, timeout=20)\n"
    "ok = ran.stdout.split() == ['15', '3']\n"
)


def one(name: str, test: dict, files: dict | None = None, suite: dict | None = None, **more) -> Case:  # type: ignore[type-arg,no-untyped-def]
    return Case(name, [test], ("",), files or {}, suite or {}, **more)


HONEST = (
    one(
        "apart",
        ask("t", FIX_IT, code("apart"), oracle={"patch": "fix.patch"}),
        {**CALC, "graders/apart.py": APART, "fix.patch": PATCH},
        SPACE,
    ),
    one(
        "sdk",
        ask("t", FIX_IT, code("sdk")),
        {
            **CALC,
            "graders/sdk.py": "from agentv_sandbox.sdk import define_code_grader, run_candidate\n\n"
            "@define_code_grader\ndef grade(case):\n    ran = run_candidate(case.workspace_path / 'calc.py', function='add', calls=[[7, 8], [-1, 4]])\n"
            "    return {'score': float(ran.ok and ran.value == [15, 3])}\n",
        },
        SPACE,
    ),
    one(
        "own-tests",
        ask(
            "t",
            FIX_IT,
            shell('cp "$AGENTV_WORKSPACE_PATH/calc.py" /tmp/candidate.py && python3 -I -B judging/values.py'),
        ),
        {
            **CALC,
            "judging/values.py": "import re\ntext = open('/tmp/candidate.py').read()\nraise SystemExit(re.search(r'return a \\+ b', text) is None)\n",
        },
        SPACE,
    ),
    one(
        "equals", ask("t", "What is 17 times 23?", {"type": "equals", "value": "391"}, expected_output="391")
    ),
    one(
        "fact-in-input",
        ask(
            "t",
            "The meeting moved from Monday to Thursday at 14:00. When is it? Answer with day and time only.",
            {"type": "equals", "value": "Thursday 14:00"},
            expected_output="Thursday 14:00",
        ),
    ),
    one(
        "repeat",
        ask(
            "t",
            "Reply with exactly this word and nothing else: PONG",
            {"type": "equals", "value": "PONG"},
            expected_output="PONG",
        ),
    ),
    one(
        "extract",
        ask(
            "t",
            "Which town is named in the letter?",
            {"type": "equals", "value": "Ely"},
            input_files=["data/letter.txt"],
            expected_output="Ely",
        ),
        {
            "data/letter.txt": "Dear Ann,\nwe stayed in Ely, in the house by the river, for the answer to your question.\n"
        },
    ),
    one(
        "essay",
        ask(
            "t",
            "Write a poem on autumn.",
            {"type": "llm-grader", "name": "poem", "prompt": "Is it a good poem?"},
        ),
        targets=JUDGED,
    ),
    one(
        "judge-and-check",
        ask(
            "t",
            FIX_IT,
            {"type": "llm-grader", "name": "review", "prompt": "Is the change small?"},
            code("apart", required=True),
        ),
        {**CALC, "graders/apart.py": APART},
        SPACE,
        targets=JUDGED,
    ),
    one(
        "seeded",
        ask("t", "Add 2 and 3; write the number.", code("seeded"), expected_output="5"),
        {
            "graders/seeded.py": grader(
                "import random\nrandom.seed(7)\na = random.randint(1, 9)\nok = answer.strip() == '5' and a < 10\n"
            )
        },
    ),
    one(
        "rng",
        ask("t", "Add 2 and 4; write the number.", code("rng"), expected_output="6"),
        {
            "graders/rng.py": grader(
                "import random\nrng = random.Random(1)\nok = answer.strip() == str(6 + 0 * rng.randint(1, 9))\n"
            )
        },
    ),
    one(
        "timed",
        ask("t", "Add 2 and 5; write the number.", code("timed"), expected_output="7"),
        {
            "graders/timed.py": grader(
                "import time\nbegan = time.monotonic()\nok = answer.strip() == '7'\n"
                "print('took', time.monotonic() - began, file=sys.stderr)\n"
            )
        },
    ),
    one(
        "logs-date",
        ask("t", "Add 2 and 6; write the number.", code("logs"), expected_output="8"),
        {
            "graders/logs.py": grader(
                "import datetime\nprint(datetime.datetime.now().isoformat(), file=sys.stderr)\nok = answer.strip() == '8'\n"
            )
        },
    ),
    one(
        "fixed-date",
        ask("t", "Which weekday was 2024-02-29?", code("weekday"), expected_output="Thursday"),
        {
            "graders/weekday.py": grader(
                "import datetime\nok = answer.strip() == datetime.date(2024, 2, 29).strftime('%A')\n"
            )
        },
    ),
    one(
        "sorted",
        ask(
            "t",
            "Write out/a.txt and out/b.txt with their own letters.",
            code("files"),
            oracle={"command": "mkdir out; echo a > out/a.txt; echo b > out/b.txt"},
        ),
        {
            "graders/files.py": grader(
                "import os\nout = ws / 'out'\nnames = sorted(os.listdir(out)) if out.is_dir() else []\n"
                "ok = names == ['a.txt', 'b.txt'] and all((out / n).is_file() and not (out / n).is_symlink() and (out / n).read_text().strip() == n[0] for n in names)\n"
            )
        },
    ),
    one(
        "url-only",
        ask(
            "t",
            "Write the address of Example's documentation.",
            code("address"),
            expected_output="https://docs.example.org/",
        ),
        {
            "graders/address.py": grader(
                "from urllib.parse import urlparse\nok = urlparse(answer.strip()).hostname == 'docs.example.org'\n"
            )
        },
    ),
    one(
        "gate",
        ask(
            "t",
            "Name the largest lake of Africa without naming others.",
            {"type": "contains", "value": "Victoria", "required": True, "min_score": 1},
            {"type": "regex", "value": "(Tanganyika|Malawi)", "negate": True},
        ),
    ),
    one(
        "negated-beside",
        ask(
            "t",
            "Name the deepest lake of Africa.",
            {"type": "contains", "value": "Tanganyika"},
            {"type": "contains", "value": "Victoria", "negate": True},
        ),
    ),
    one(
        "half",
        ask(
            "t",
            "Name three planets beyond Jupiter.",
            {"type": "contains", "value": "Saturn"},
            {"type": "contains", "value": "Uranus"},
            {"type": "contains", "value": "Neptune"},
            execution={"threshold": 0.6},
        ),
    ),
    one(
        "or-true-inside",
        ask(
            "t",
            "Write out/n.txt with the number of the beast.",
            shell(
                'mkdir -p /tmp/x || true; f="$AGENTV_WORKSPACE_PATH/out/n.txt"; '
                '[ -f "$f" ] && [ ! -L "$f" ] && [ "$(cat "$f")" = 666 ]'
            ),
            oracle={"command": "mkdir -p out && echo 666 > out/n.txt"},
        ),
    ),
    one(
        "tests-to-write",
        ask(
            "t",
            "Write test_calc.py with a test of add() in calc.py that fails for subtraction.",
            code("mutates"),
        ),
        {
            "template/calc.py": "def add(a, b):\n    return a + b\n",
            "graders/mutates.py": grader(
                "import ast\npath = ws / 'test_calc.py'\ntree = ast.parse(path.read_text()) if path.is_file() and not path.is_symlink() else ast.parse('')\n"
                "calls = [n for n in ast.walk(tree) if isinstance(n, ast.Compare) and 'add(' in ast.unparse(n.left)]\nok = len(calls) > 0\n"
            ),
        },
        SPACE,
    ),
    one(
        "template-with-docs",
        ask(
            "t",
            "What port does the server use by default? Write the number.",
            {"type": "equals", "value": "8713"},
            expected_output="8713",
        ),
        {
            "template/README.md": "# Server\n\nIt listens on port 8713 unless told otherwise. See expected.md for answers to common questions.\n",
            "template/src/answers.py": "def answers():\n    return []\n",
        },
        SPACE,
    ),
    one(
        "expected-name",
        ask("t", "Make parse() in parser.py accept negative numbers.", code("parses")),
        {
            "template/parser.py": "def parse(text):\n    return int(text) if text.isdigit() else None\n",
            "template/tests/expected_errors.txt": "E17 bad number\n",
            "graders/parses.py": APART.replace(
                "import calc; print(calc.add(7, 8), calc.add(-1, 4))",
                'import parser as p; print(p.parse("-5") + 1, p.parse("6") + 1)',
            )
            .replace("['15', '3']", "['-4', '7']")
            .replace("calc", "parser"),
        },
        SPACE,
    ),
    one(
        "criteria-own-words",
        ask(
            "t",
            "Explain in two sentences how a heat pump works.",
            {"type": "llm-grader", "name": "g", "prompt": "Good?"},
            criteria="Explains that heat is moved, not made, and that the working fluid evaporates and condenses.",
        ),
        targets=JUDGED,
    ),
    one(
        "criteria-short",
        ask(
            "t",
            "Write a haiku about rain.",
            {"type": "llm-grader", "name": "g", "prompt": "Good?"},
            criteria="A haiku about rain",
        ),
        targets=JUDGED,
    ),
    one(
        "json",
        ask("t", 'Give {"total": …} for 2 and 9 as JSON.', code("total"), expected_output='{"total": 11}'),
        {
            "graders/total.py": grader(
                "try:\n    ok = json.loads(answer) == {'total': 11}\nexcept ValueError:\n    ok = False\n"
            )
        },
    ),
    one(
        "reads-json-file",
        ask(
            "t",
            "Write results.json with the key total: the sum of 5 and 8.",
            code("result"),
            oracle={"command": "echo '{\"total\": 13}' > results.json"},
        ),
        {
            "graders/result.py": grader(
                "path = ws / 'results.json'\ntry:\n    ok = not path.is_symlink() and json.loads(path.read_text()) == {'total': 13}\n"
                "except (OSError, ValueError):\n    ok = False\n"
            )
        },
    ),
    Case(
        "depends",
        [
            ask(
                "a",
                "Write a.txt with the word apple.",
                shell('f="$AGENTV_WORKSPACE_PATH/a.txt"; [ ! -L "$f" ] && grep -qx apple "$f"'),
            ),
            ask(
                "b",
                "Say what a.txt holds.",
                {"type": "equals", "value": "apple"},
                shell('grep -qx apple "$AGENTV_WORKSPACE_PATH/a.txt"'),
                depends_on=["a"],
            ),
        ],
        ("", ""),
        suite={"workspace": {"isolation": "shared"}},
    ),
    one(
        "nothing-to-do",
        ask(
            "t",
            "Only if report.txt is wrong, repair it. It is right.",
            shell('grep -qx "total 5" "$AGENTV_WORKSPACE_PATH/report.txt"'),
            oracle="nothing",
        ),
        {"template/report.txt": "total 5\n"},
        SPACE,
    ),
    one(
        "path-of-suite",
        ask("t", FIX_IT, code("beside")),
        {
            **CALC,
            "graders/beside.py": grader(
                "sys.path.insert(0, str(Path(__file__).parent))\nimport helper\nok = helper.right((ws / 'calc.py').read_text() if (ws / 'calc.py').is_file() else '')\n"
            ),
            "graders/helper.py": "import ast\n\n\ndef right(text):\n    try:\n        tree = ast.parse(text)\n    except SyntaxError:\n        return False\n"
            "    return any(isinstance(n, ast.Return) and ast.unparse(n) == 'return a + b' for n in ast.walk(tree))\n",
        },
        SPACE,
    ),
)
