"""``workspace.system``: hooks and agents as root of a copy of the image."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Project

pytestmark = pytest.mark.engine

TARGETS = """
targets:
  - name: agent
    provider: cli
    command: >-
      sh -c 'id -un >> {OUTPUT_FILE}; pwd >> {OUTPUT_FILE}; cat /etc/set-up /root/* seed >> {OUTPUT_FILE};
      echo agent > /root/two; rm -r /usr/share/base-files; exit 0'
"""
SUITE = """
name: systems
execution: {target: agent}
workspace:
  system: {size_mb: 64, files: 2000}
  template: files
  hooks:
    before_all: {command: "echo all > /etc/set-up"}
    before_each: {command: "echo each > /root/one"}
    after_each: {command: "test -f /root/two && test ! -e /usr/share/base-files"}
tests:
  - id: root
    input: go
    assert: [{type: equals, value: "root\\n/workspace\\nall\\neach\\nseed"}]
  - id: again
    input: go
    assert: [{type: equals, value: "root\\n/workspace\\nall\\neach\\nseed"}]
  - id: elsewhere
    input: go
    workspace: {system: {workdir: /srv/app, user: www-data, size_mb: 64}}
    assert: [{type: contains, value: "www-data\\n/srv/app\\nall\\n"}]
"""


@pytest.mark.native
def test_hooks_and_agents_work_as_root_in_a_system_that_each_test_has_for_itself(project: Project) -> None:
    project.write({"targets.yaml": TARGETS, "systems.eval.yaml": SUITE, "files/seed": "seed\n"})
    done = project.run("systems.eval.yaml", "--workers", "3")
    rows = done.rows
    assert {name: (row.get("error"), row["score"]) for name, row in rows.items()} == {
        "root": (None, 1.0),
        "again": (None, 1.0),
        "elsewhere": (None, 1.0),
    }
    # Whoever is not root has their own files alone; hooks are root's in any case.
    assert {
        name for name, row in rows.items() if any("after_each" in note for note in row.get("notes", []))
    } == {"elsewhere"}


FILLS = """
targets:
  - name: agent
    provider: cli
    command: >-
      sh -c 'echo done > {OUTPUT_FILE}; chmod 4755 /usr/bin/wc; echo own > /etc/issue; rm -r /usr/share/base-files;
      test {EVAL_ID} = shown || head -c 900M /dev/zero > /var/big'
"""
FILLED = """
name: filled
execution: {target: agent}
workspace: {system: {size_mb: 64, files: 2000}}
tests:
  - id: shown
    input: go
    assert: [{type: contains, value: "done"}]
  - id: full
    input: go
    assert: [{type: contains, value: "done"}]
"""


@pytest.mark.native
def test_what_an_agent_changed_in_its_system_is_shown_and_its_bounds_are_reported(project: Project) -> None:
    project.write({"targets.yaml": FILLS, "filled.eval.yaml": FILLED})
    done = project.run("filled.eval.yaml")
    assert "the system is full, with" in done.rows["full"]["error"]
    assert "workspace.system.size_mb makes it larger" in done.rows["full"]["error"]
    diff = (done.folder / "filled/shown/workspace.diff").read_text()
    assert "+++ b//etc/issue" in diff
    assert "# /usr/bin/wc: mode 0755, owner 0:0 -> mode 4755, owner 0:0" in diff.replace('"', "")
