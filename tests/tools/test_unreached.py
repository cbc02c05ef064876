"""``tools/unreached.py``: code that only tests reach fails ``make lint``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAIN = "from shop.orders import total\n\nprint(total([1]))\n"
ORDERS = "def total(prices):\n    return sum(prices)\n"


def check(folder: Path, files: Mapping[str, str], allowed: str | None = None) -> tuple[int, str]:
    """Exit status and output for a package ``shop`` of these files, and a test that uses all of it."""
    for name, text in files.items():
        path = folder / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "tests").mkdir()
    (folder / "tests" / "test_shop.py").write_text(
        "from shop import orders\n\n\ndef test_everything():\n    orders.refund()\n    orders.Order(1).ship().late\n"
    )
    arguments = [folder / "shop"]
    if allowed is not None:
        arguments.append(folder / "allowed.toml")
        arguments[-1].write_text(allowed)
    return run(*arguments)


def run(*arguments: Path) -> tuple[int, str]:
    command = [sys.executable, str(ROOT / "tools" / "unreached.py"), *map(str, arguments)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert not ended.stderr
    return ended.returncode, ended.stdout


def test_what_is_used_passes(tmp_path: Path) -> None:
    assert check(tmp_path, {"__init__.py": "", "__main__.py": MAIN, "orders.py": ORDERS}) == (0, "")


ORDER = """
from dataclasses import dataclass

@dataclass
class Order:
    price: int
    {field}

    def ship(self):
        return self.price
    {method}
"""
USER = "from shop.orders import Order\n\nprint(Order(1).ship())\n"
UNUSED = {
    "function": (
        {"__main__.py": MAIN, "orders.py": ORDERS + "\ndef refund():\n    pass\n"},
        "4: function shop.orders.refund",
    ),
    "function in __all__": (
        {"__main__.py": MAIN, "orders.py": ORDERS + "\n__all__ = ['refund']\n\ndef refund():\n    pass\n"},
        "6: function shop.orders.refund",
    ),
    "function that calls itself": (
        {"__main__.py": MAIN, "orders.py": ORDERS + "\ndef refund():\n    refund()\n"},
        "4: function shop.orders.refund",
    ),
    "function of the name of another one": (
        {"__main__.py": MAIN, "orders.py": ORDERS, "refunds.py": "def total():\n    pass\n"},
        "1: function shop.refunds.total",
    ),
    "function that is handed on": (
        {
            "__main__.py": MAIN.replace(".orders", ".sales"),
            "sales/__init__.py": "from shop.orders import refund, total\n",
            "orders.py": ORDERS + "\ndef refund():\n    pass\n",
        },
        "4: function shop.orders.refund",
    ),
    "class": (
        {"__main__.py": MAIN, "orders.py": ORDERS + "\nclass Order:\n    pass\n"},
        "4: class shop.orders.Order",
    ),
    "constant": (
        {"__main__.py": MAIN, "orders.py": ORDERS + "\nLIMIT = 5\n"},
        "4: constant shop.orders.LIMIT",
    ),
    "method": (
        {"__main__.py": USER, "orders.py": ORDER.format(field="", method="def pay(self):\n        pass")},
        "11: method shop.orders.Order.pay",
    ),
    "method of the name of a field": (
        {
            "__main__.py": USER,
            "orders.py": ORDER.format(field="", method="def late(self):\n        pass"),
            "parcels.py": "class Parcel:\n    late: bool = False\n\nprint(Parcel().late)\n",
        },
        "11: method shop.orders.Order.late",
    ),
    "property": (
        {
            "__main__.py": USER,
            "orders.py": ORDER.format(field="", method="@property\n    def late(self):\n        pass"),
        },
        "12: property shop.orders.Order.late",
    ),
    "field": (
        {"__main__.py": USER, "orders.py": ORDER.format(field="late: bool = False", method="")},
        "7: field shop.orders.Order.late",
    ),
}


@pytest.mark.parametrize("what", UNUSED)
def test_what_only_a_test_uses_is_listed(tmp_path: Path, what: str) -> None:
    files, listed = UNUSED[what]
    status, output = check(tmp_path, {"__init__.py": "", **files})
    assert status == 1
    assert [line.partition(".py:")[2] for line in output.splitlines()] == [
        f"{listed} is used by no code of the package"
    ]


def test_what_unused_code_alone_uses_is_listed_too(tmp_path: Path) -> None:
    orders = ORDERS + "\ndef refund():\n    return _back()\n\ndef _back():\n    pass\n"
    status, output = check(tmp_path, {"__init__.py": "", "__main__.py": MAIN, "orders.py": orders})
    assert status == 1
    assert "shop.orders.refund" in output and "shop.orders._back" in output


def test_what_a_decorator_registers_and_what_is_public_is_used(tmp_path: Path) -> None:
    orders = ORDERS + "\n@app.command()\ndef refund():\n    pass\n\ndef ship():\n    pass\n"
    files = {"__init__.py": "from shop.orders import ship\n", "__main__.py": MAIN, "orders.py": orders}
    assert check(tmp_path, files) == (0, "")


def test_what_is_allowed_reaches_what_it_uses(tmp_path: Path) -> None:
    orders = ORDERS + "\ndef refund():\n    return _back()\n\ndef _back():\n    pass\n"
    allowed = '[plugs]\nreason = "called by name"\nnames = ["shop.orders.refund"]\n'
    files = {"__init__.py": "", "__main__.py": MAIN, "orders.py": orders}
    assert check(tmp_path, files, allowed) == (0, "")


def test_a_needless_permission_is_listed(tmp_path: Path) -> None:
    allowed = '[plugs]\nreason = "called by name"\nnames = ["shop.orders.total"]\n'
    status, output = check(tmp_path, {"__init__.py": "", "__main__.py": MAIN, "orders.py": ORDERS}, allowed)
    assert status == 1
    assert "shop.orders.total matches nothing that is unreached; remove it" in output


@pytest.mark.slow
def test_this_package_with_one_more_function(tmp_path: Path) -> None:
    package = tmp_path / "agentv_sandbox"
    shutil.copytree(ROOT / "agentv_sandbox", package, symlinks=True)
    with (package / "building" / "verify.py").open("a") as file:
        file.write("\n\ndef only_a_test_calls_this() -> None:\n    pass\n")
    status, output = run(package, ROOT / "tools" / "unreached.toml")
    assert status == 1
    assert (
        "function agentv_sandbox.building.verify.only_a_test_calls_this" in output and output.count("\n") == 1
    )


@pytest.mark.slow
def test_make_lint_runs_the_check() -> None:
    plan = subprocess.run(
        ["make", "-n", "lint"], check=True, cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert "tools/unreached.py agentv_sandbox tools/unreached.toml" in plan.stdout
