"""A place that takes no results is found before anything is built, also by root."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentv_sandbox.base.errors import InputError
from agentv_sandbox.runfolder.folder import refuse_unusable


@pytest.mark.parametrize("place", ["/proc/results", "/proc/self/results/today", "/sys/results"])
def test_a_file_system_of_the_kernel_is_refused(place: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        refuse_unusable(Path(place), tmp_path)
    (problem,) = caught.value.problems
    assert problem.field == "--output" and f"cannot write results to {place}: /" in problem.message


@pytest.mark.parametrize("place", ["results", "a/b/c"])
def test_nothing_is_left_where_results_can_be_written(place: str, tmp_path: Path) -> None:
    refuse_unusable(Path(place), tmp_path)
    assert list(tmp_path.iterdir()) == []
