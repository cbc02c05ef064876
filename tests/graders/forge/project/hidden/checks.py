import pytest

from agentv_sandbox.sdk import run_candidate


@pytest.mark.parametrize(("a", "b", "total"), [(1, 2, 3), (5, 5, 10), (0, -1, -1)])
def test_add(a, b, total):
    ran = run_candidate("/workspace/solution.py", function="add", calls=[[a, b]])
    assert ran.value == [total]
