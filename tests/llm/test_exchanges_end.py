"""The thread that asks models ends without a word."""

from __future__ import annotations

import gc
import logging

import pytest

from agentv_sandbox.modelclient.exchange import Exchanges


def test_nothing_is_pending_where_it_asked_for_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """As in a run whose calls of models are replayed: the interpreter reports tasks that wait still."""
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            exchanges = Exchanges(lambda: False)
            exchanges.start()
            exchanges.close()
        gc.collect()
    assert [record.getMessage() for record in caplog.records] == []
