"""Twenty-four more flaws in twelve suites, and twelve honest suites with near misses, written from what an audit is asked to
find alone: whoever wrote them had not seen the detectors. What of them was found at first is in docs/how-to/audit.md."""

from __future__ import annotations

from tests.audit.honest import PATCH, one
from tests.audit.planted import CALC, FIX_IT, JUDGED, SPACE, Case, ask, code, grader, shell

FLAWED = (
    Case(
        "unseen-loads",
        [
            ask("sitedir", FIX_IT, code("sitedir")),
            ask(
                "sourced",
                "Write settings.sh, which sets PORT to 8080.",
                shell('. "$AGENTV_WORKSPACE_PATH/settings.sh"; [ "$PORT" = 8080 ]'),
            ),
        ],
        ("imports-from-workspace", "imports-from-workspace"),
        {
            **CALC,
            "graders/sitedir.py": grader(
                "import site\nsite.addsitedir(str(ws))\nfrom calc import add\nok = add(7, 8) == 15\n"
            ),
        },
        SPACE,
    ),
    Case(
        "unseen-native",
        [
            ask("library", "Build libsum.so with a C function sum(int, int).", code("library")),
            ask("os-system", FIX_IT, code("system")),
        ],
        ("imports-from-workspace", "decided-in-workspace"),
        {
            **CALC,
            "template/ci/check.sh": "python3 -B -c 'from calc import add; assert add(2, 3) == 5'\n",
            "graders/library.py": grader(
                "import ctypes\ntry:\n    ok = ctypes.CDLL(str(ws / 'libsum.so')).sum(20, 3) == 23\n"
                "except OSError:\n    ok = False\n"
            ),
            "graders/system.py": grader("ok = os.system(f'cd {ws} && sh ci/check.sh') == 0\n"),
        },
        SPACE,
    ),
    Case(
        "unseen-runs",
        [
            ask(
                "find-exec",
                FIX_IT,
                shell('cd "$AGENTV_WORKSPACE_PATH" && find tests -name "check_*.py" -exec python3 {} +'),
            ),
            ask("junit", "Make the tests pass, and leave their report in junit.xml.", code("junit")),
        ],
        ("decided-in-workspace", "verdict-from-agent"),
        {
            **CALC,
            "template/tests/check_calc.py": "import os, sys\nsys.path.insert(0, os.getcwd())\n"
            "from calc import add\nassert add(2, 3) == 5\n",
            "graders/junit.py": grader(
                "import xml.etree.ElementTree as ET\npath = ws / 'junit.xml'\nok = False\n"
                "if path.is_file():\n    root = ET.parse(path).getroot()\n"
                "    ok = int(root.get('failures', 1)) == 0 and int(root.get('errors', 1)) == 0\n"
            ),
        },
        SPACE,
    ),
    Case(
        "unseen-words",
        [
            ask("own-score", "Play the game and end with a line of your score.", code("own_score")),
            ask(
                "german",
                "Führe die Migration der Datenbank durch und melde das Ergebnis.",
                {"type": "icontains", "value": "erfolgreich"},
            ),
        ],
        ("verdict-from-agent", "claim-believed"),
        {
            "graders/own_score.py": grader(
                "import re\nfound = re.search(r'score: *([0-9.]+)', answer.lower())\n"
                "ok = bool(found) and min(1.0, float(found.group(1)) / 10) >= 0.5\n"
            ),
        },
    ),
    Case(
        "unseen-truthy",
        [
            ask("or", "Name the capital of Libya.", code("either")),
            ask(
                "tuple",
                "What is 4 squared?",
                shell(
                    "python3 -c \"import sys; answer = sys.stdin.read(); assert ('16' in answer, 'wrong number')\""
                ),
            ),
        ],
        ("always-passes", "always-passes"),
        {"graders/either.py": grader("ok = bool('Tripoli' or 'Tarabulus' in answer)\n")},
    ),
    Case(
        "unseen-patterns",
        [
            ask(
                "year",
                "In which year was the battle of Marathon?",
                {"type": "regex", "value": r"^\d{3,4}$"},
                {"type": "contains", "value": "BC"},
            ),
            ask(
                "optional",
                "Name the highest mountain of Africa.",
                {"type": "regex", "value": "(Kilimanjaro)?", "required": True},
                {"type": "contains-all", "value": ["Kilimanjaro", "Tanzania"]},
            ),
        ],
        ("never-passes", "gate-never-fires"),
    ),
    Case(
        "unseen-fixtures",
        [
            ask(
                "case-out",
                "Write total.py, and write what it prints for tests/case_07.in into case_07.txt.",
                shell(
                    'f="$AGENTV_WORKSPACE_PATH/case_07.txt"; [ ! -L "$f" ] && cmp -s "$f" graders/case_07.out'
                ),
            ),
            ask("by-hook", "Classify each line of reviews.txt: write labels.csv.", code("labels")),
        ],
        ("answer-in-reach", "answer-in-reach"),
        {
            "template/tests/case_07.in": "411\n582\n17\n",
            "template/tests/case_07.out": "lines 3 total 1010\n",
            "graders/case_07.out": "lines 3 total 1010\n",
            "data/reviews.txt": "a fine film\nI left early\nthe best of the year\n",
            "data/gold.csv": "1,positive\n2,negative\n3,positive\n",
            "graders/labels.py": grader(
                "path = ws / 'labels.csv'\nwant = Path('/suite/data/gold.csv').read_text().split()\n"
                "ok = path.is_file() and not path.is_symlink() and path.read_text().split() == want\n"
            ),
        },
        {
            "workspace": {
                "template": "template",
                "hooks": {"before_each": {"command": ["sh", "-c", 'cp -r data/. "$AGENTV_WORKSPACE_PATH"']}},
            }
        },
    ),
    Case(
        "unseen-prompts",
        [
            {
                "id": "system",
                "criteria": "Names the tide, the moon and the sun, and says that spring tides come at new and full moon.",
                "input": [
                    {
                        "role": "system",
                        "content": "You answer for an examination. Marks are given thus: names the tide, the moon and the "
                        "sun, and says that spring tides come at new and full moon.",
                    },
                    {"role": "user", "content": "Why are there tides?"},
                ],
                "assertions": [
                    {"type": "llm-grader", "name": "g", "prompt": "Good?"},
                    {"type": "contains-all", "value": ["gravity pulls", "twice a day"]},
                ],
            },
            ask(
                "columns",
                "Write the statement that makes a table with the columns article_id, unit_price and stock.",
                code("columns"),
            ),
        ],
        ("criteria-in-input", "prompt-echoed"),
        {
            "graders/columns.py": grader(
                "ok = all(name in answer for name in ('article_id', 'unit_price', 'stock'))\n"
            )
        },
        targets=JUDGED,
    ),
    Case(
        "unseen-unstable",
        [
            ask(
                "dice",
                "Write a sentence about tea.",
                shell("grep -q tea && [ $((RANDOM % 2)) = 0 ]"),
                expected_output="There is tea for all.",
            ),
            ask(
                "fresh",
                "Write out/now.txt with the word ready.",
                code("fresh"),
                oracle={"command": "mkdir -p out && echo ready > out/now.txt"},
            ),
        ],
        ("disagrees-with-itself", "depends-on-time"),
        {
            "graders/fresh.py": grader(
                "import time\npath = ws / 'out/now.txt'\n"
                "ok = path.is_file() and not path.is_symlink() and path.read_text().strip() == 'ready'"
                " and time.time() - path.stat().st_mtime < 3600\n"
            )
        },
    ),
    Case(
        "unseen-files",
        [
            ask("counted", "Draw a chart for each of the twelve months into charts/.", code("counted")),
            ask("compared", "Translate letter.txt into Latin: write letter.la.txt.", code("compared")),
        ],
        ("existence-only", "link-followed"),
        {
            "template/letter.txt": "The wolf is in the wood.\n",
            "graders/letter.la.txt": "Lupus in silva est.\n",
            "graders/counted.py": grader("ok = len(list(ws.glob('charts/*'))) >= 12\n"),
            "graders/compared.py": grader(
                "import filecmp\npath = ws / 'letter.la.txt'\n"
                "ok = path.exists() and filecmp.cmp(path, Path(__file__).parent / 'letter.la.txt', shallow=False)\n"
            ),
        },
        SPACE,
    ),
    Case(
        "unseen-values",
        [
            ask(
                "keys-only",
                "Write stats.json with the mean and the median of 3, 5 and 10.",
                code("keys"),
                oracle={"command": 'echo \'{"mean": 6, "median": 5}\' > stats.json'},
            ),
            ask("digit", "How many continents are there?", code("digit")),
        ],
        ("mutant-passes", "weak-comparison"),
        {
            "graders/keys.py": grader(
                "path = ws / 'stats.json'\ntry:\n    found = json.loads(path.read_text())\n"
                "except (OSError, ValueError):\n    found = {}\n"
                "ok = set(found) == {'mean', 'median'} and all(isinstance(v, (int, float)) for v in found.values())\n"
            ),
            "graders/digit.py": grader("ok = '7' in answer\n"),
        },
    ),
    Case(
        "unseen-outside",
        [
            ask("prices", "Write today's price of copper in dollars a tonne.", code("prices")),
            ask(
                "rubrics",
                "Write primes.py, which prints the first ten primes.",
                {
                    "type": "rubrics",
                    "name": "review",
                    "criteria": ["primes.py prints 2, 3, 5, 7, 11, 13, 17, 19, 23 and 29"],
                },
            ),
        ],
        ("depends-on-network", "judge-alone"),
        {
            "graders/prices.py": grader(
                "import http.client\nasked = http.client.HTTPSConnection('prices.example.org', timeout=10)\n"
                "asked.request('GET', '/copper')\nwant = json.load(asked.getresponse())['usd']\n"
                "ok = abs(float(answer) - want) < 1\n"
            )
        },
        targets=JUDGED,
    ),
)
assert sum(bool(rule) for case in FLAWED for rule in case.flaws) == 24

ADDS = (
    "import ast\n\n\ndef adds(text):\n    try:\n        tree = ast.parse(text)\n    except SyntaxError:\n"
    "        return False\n    return any(isinstance(n, ast.Return) and ast.unparse(n) == 'return a + b' for n in ast.walk(tree))\n"
)
HONEST = (
    one(
        "near-sitedir",
        ask("t", FIX_IT, code("sitedir"), oracle={"patch": "fix.patch"}),
        {
            **CALC,
            "fix.patch": PATCH,
            "graders/lib/reading.py": ADDS,
            "graders/sitedir.py": grader(
                "import site\nsite.addsitedir(str(Path(__file__).parent / 'lib'))\nfrom reading import adds\n"
                "path = ws / 'calc.py'\nok = path.is_file() and not path.is_symlink() and adds(path.read_text())\n"
            ),
        },
        SPACE,
    ),
    one(
        "near-sourced",
        ask(
            "t",
            "Write settings.ini with the line port = 8080.",
            shell('. graders/lib.sh; holds "$AGENTV_WORKSPACE_PATH/settings.ini"'),
            oracle={"command": "echo 'port = 8080' > settings.ini"},
        ),
        {"graders/lib.sh": 'holds() {\n    [ -f "$1" ] && [ ! -L "$1" ] && grep -qx "port = 8080" "$1"\n}\n'},
    ),
    one(
        "near-system",
        ask("t", FIX_IT, code("system"), oracle={"patch": "fix.patch"}),
        {
            **CALC,
            "fix.patch": PATCH,
            "graders/system.py": grader(
                "os.system(f'cp -P {ws}/calc.py /tmp/candidate.py')\npath = Path('/tmp/candidate.py')\n"
                "ok = path.is_file() and not path.is_symlink() and path.read_text().splitlines()[-1] == '    return a + b'\n"
            ),
        },
        SPACE,
    ),
    one(
        "near-find",
        ask(
            "t",
            "Write each of the words of words.txt into a file of its own: out/1.txt, out/2.txt and so on.",
            shell(
                'find "$AGENTV_WORKSPACE_PATH/out" -name "*.txt" -type f -exec cat {} + | sort | cmp -s - graders/want.txt'
            ),
            oracle={
                "command": "mkdir -p out; n=0; while read -r w; do n=$((n + 1)); echo $w > out/$n.txt; done < words.txt"
            },
        ),
        {"template/words.txt": "pear\nfig\n", "graders/want.txt": "fig\npear\n"},
        SPACE,
    ),
    one(
        "near-junit",
        ask(
            "t",
            "Write results.csv as a JUnit report, junit.xml.",
            code("junit"),
            oracle={"command": 'echo \'<testsuite name="night" tests="3" failures="1"/>\' > junit.xml'},
        ),
        {
            "template/results.csv": "name,result\na,passed\nb,failed\nc,passed\n",
            "graders/junit.py": grader(
                "import xml.etree.ElementTree as ET\npath = ws / 'junit.xml'\ntry:\n"
                "    root = None if path.is_symlink() else ET.fromstring(path.read_text())\n"
                "except (OSError, ET.ParseError):\n    root = None\n"
                "ok = root is not None and (root.get('tests'), root.get('failures')) == ('3', '1')\n"
            ),
        },
        SPACE,
    ),
    one(
        "near-score",
        ask(
            "t",
            "What was the result of the final of 1954 in Bern, the winner's goals first?",
            code("result"),
            expected_output="Score: 3-2",
        ),
        {
            "graders/result.py": grader(
                "import re\nok = bool(re.fullmatch(r'(Score: *)?3[-:]2', answer.strip()))\n"
            )
        },
    ),
    one(
        "near-german",
        ask(
            "t",
            "Translate into German, one word: successful.",
            {"type": "equals", "value": "erfolgreich"},
            expected_output="erfolgreich",
        ),
    ),
    one(
        "near-or",
        ask("t", "Name the capital of Libya; the name alone.", code("either"), expected_output="Tripoli"),
        {"graders/either.py": grader("ok = answer.strip() == 'Tripoli' or answer.strip() == 'Tarabulus'\n")},
    ),
    one(
        "near-fixtures",
        ask(
            "t",
            "Write total.txt: what tests/case_01.out shows for tests/case_01.in, for tests/case_07.in.",
            shell('f="$AGENTV_WORKSPACE_PATH/total.txt"; [ ! -L "$f" ] && cmp -s "$f" graders/case_07.out'),
            oracle={"command": "echo lines 3 total 1010 > total.txt"},
        ),
        {
            "template/tests/case_01.in": "4\n5\n",
            "template/tests/case_01.out": "lines 2 total 9\n",
            "template/tests/case_07.in": "411\n582\n17\n",
            "graders/case_07.out": "lines 3 total 1010\n",
        },
        SPACE,
    ),
    one(
        "near-hook",
        ask(
            "t",
            "Classify each line of reviews.txt: write labels.csv.",
            code("labels"),
            oracle={"command": "printf '1,positive\\n2,negative\\n' > labels.csv"},
        ),
        {
            "data/reviews.txt": "a fine film\nI left early\n",
            "keys/gold.csv": "1,positive\n2,negative\n",
            "graders/labels.py": grader(
                "path = ws / 'labels.csv'\nwant = Path('/suite/keys/gold.csv').read_text().split()\n"
                "ok = path.is_file() and not path.is_symlink() and path.read_text().split() == want\n"
            ),
        },
        {
            "workspace": {
                "hooks": {"before_each": {"command": ["sh", "-c", 'cp -r data/. "$AGENTV_WORKSPACE_PATH"']}}
            }
        },
    ),
    one(
        "near-chance",
        ask("t", "Add 3 and 8; write the number.", code("unique"), expected_output="11"),
        {
            "graders/unique.py": grader(
                "import uuid\nkept = Path('/tmp') / f'{uuid.uuid4()}.txt'\nkept.write_text(answer)\n"
                "ok = kept.read_text().strip() == '11'\n"
            )
        },
    ),
    one(
        "near-watch",
        ask("t", "Add 3 and 8; write the number.", code("watched"), expected_output="11"),
        {
            "graders/watched.py": grader(
                "import time\nt = time.time()\nok = answer.strip() == '11' and time.time() - t < 9\n"
                "print('took', time.time() - t, file=sys.stderr)\n"
            )
        },
    ),
    one(
        "near-key",
        ask(
            "t",
            "Which river of rivers.json is the longest? Answer with its name alone.",
            {"type": "equals", "value": "Amazon"},
            expected_output="Amazon",
        ),
        {
            "template/rivers.json": '{"rivers": [{"name": "Rhine", "km": 1230}, {"name": "Amazon", "km": 6400}]}'
        },
        SPACE,
    ),
    one(
        "near-network",
        ask(
            "t",
            "What is the reason phrase of the HTTP status 404?",
            code("phrase"),
            expected_output="Not Found",
        ),
        {
            "graders/phrase.py": grader(
                "import http.client\nok = answer.strip() == http.client.responses[404]\n"
            )
        },
    ),
)
