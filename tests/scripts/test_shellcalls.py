"""Which commands a shell script calls."""

from __future__ import annotations

import time

import pytest

from agentv_sandbox.scripts.shellcalls import calls_of

SCRIPT = """#!/usr/bin/env bash
set -e  # git in a comment
HERE="$(cd "$(dirname "$0")" && pwd)"
COMMIT=$(git rev-parse HEAD) node x.js
if ! command -v bun >/dev/null 2>&1; then curl -fsS "https://x/$(jq -r .v p.json)" | tar xz; fi
cat <<'EOF' > out.txt
make install
EOF
echo "make it; hg push" 'svn up'
case "$1" in
  php|lua) make build ;;
  (go) ruby x.rb;;
  *) exit
esac
helper() { perl -e 1; }
function other { lua x; }
for f in git hg; do sqlite3 "$f" <<< "x"; done
list=(pandoc ffmpeg)
[[ -f x && -f rg ]] && rg foo || true
x=`date +%s`; (cd /tmp; zip -r a .)
(( i++ )); echo $((1 + 2)) ${y:-$(hostname)}
diff <(sort a) <(uniq b) 2>&1 > log
while read -r l; do xmllint "$l"; done < file
"""


def test_simple_commands_are_found_wherever_they_stand_and_nothing_else() -> None:
    calls = calls_of(SCRIPT)
    found = {(called.words[0], called.line) for called in calls.commands}
    assert found == {
        *(("set", 2), ("dirname", 3), ("cd", 3), ("pwd", 3), ("git", 4), ("node", 4), ("command", 5)),
        *(
            ("jq", 5),
            ("curl", 5),
            ("tar", 5),
            ("cat", 6),
            ("echo", 9),
            ("make", 11),
            ("ruby", 12),
            ("exit", 13),
        ),
        *(("perl", 15), ("lua", 16), ("sqlite3", 17), ("[[", 19), ("rg", 19), ("true", 19), ("date", 20)),
        *(("cd", 20), ("zip", 20), ("hostname", 21), ("echo", 21), ("sort", 22), ("uniq", 22), ("diff", 22)),
        *(("read", 23), ("xmllint", 23)),
    }
    assert calls.functions == {"helper", "other"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("$DIR/run.sh a", ("\0/run.sh", "a")),
        ('bash "$(dirname "$0")/x.sh"', ("bash", "\0/x.sh")),
        ("git -C 'a b' \\\n log", ("git", "-C", "a b", "log")),
        ("A=1 B='x y' jq .", ("jq", ".")),
        ("2>/dev/null git x", ("git", "x")),
        ("git\tx # y", ("git", "x")),
    ],
)
def test_words_are_as_the_shell_reads_them(text: str, words: tuple[str, ...]) -> None:
    assert calls_of(text).commands[-1].words == words


@pytest.mark.parametrize(
    "text", ["git 'x", 'git "x', "git $(x", "git ${x", "git )", "git $((x", "git `a", "(git"]
)
def test_what_has_no_end_calls_nothing(text: str) -> None:
    assert "git" not in {called.words[0] for called in calls_of(text).commands}


HOSTILE = {
    "operators": ";" * 50_000,
    "lines": "\n" * 50_000,
    "brackets": "(" * 50_000,
    "substitutions": "$(" * 25_000,
    "sums": "$((" * 17_500,
    "quotes": "'" * 50_001,
    "strings": '"' * 50_001,
    "backticks": "`" * 50_000,
    "backslashes": "\\" * 50_001,
    "variables": "$a" * 25_000,
    "braces": "${" * 25_000,
    "here documents": "<<a\n" * 12_500,
    "here documents in one line": "<<a " * 12_500 + "\n",
    "cases": "case a in " * 5_000,
    "tests": "[[ " * 17_500,
    "functions": "a() " * 12_500,
    "one word": "a" * 50_000,
    "a word in pieces": "a'b'" * 12_500,
    "lists": "a=(" * 17_500,
    "numbers": "1" * 50_000 + ">",
    "blanks": "a" + " " * 50_000,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_no_text_takes_long(what: str) -> None:
    begin = time.process_time()
    calls_of(HOSTILE[what])
    assert time.process_time() - begin < 10  # the square of these lengths would take many minutes
