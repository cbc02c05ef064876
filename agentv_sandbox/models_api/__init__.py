"""Everything about APIs of models: how they are spoken, asked, guarded, counted and recorded.

``dialects/`` has one file an API; ``gateway/`` is what agents meet, ``client/`` asks targets and judges from this
machine, ``recordings/`` keeps calls. What the rest of the package needs stands here.
"""

from __future__ import annotations

from agentv_sandbox.models_api.client.llmclient import LlmClient
from agentv_sandbox.models_api.client.retry import RequestBudget
from agentv_sandbox.models_api.denial import Denial
from agentv_sandbox.models_api.dialects import APIS, KEY_HEADERS
from agentv_sandbox.models_api.gateway.calls import CallLog
from agentv_sandbox.models_api.gateway.examining import BODY_BYTES, examine, refusal
from agentv_sandbox.models_api.gateway.heard import HeardAnswers
from agentv_sandbox.models_api.gateway.meter import Bounds, Meter, ModelUse
from agentv_sandbox.models_api.gateway.modelcall import Admitted, LimitAnswer, ModelCall
from agentv_sandbox.models_api.gateway.modelgateway import ModelGateway
from agentv_sandbox.models_api.gateway.trajectory import trajectory
from agentv_sandbox.models_api.limiter import (
    MOST_ADDED_S,
    GoneAway,
    KeyLimit,
    LimitWait,
    RateLimits,
    WaitClock,
)
from agentv_sandbox.models_api.policy import BOUNDS, FORMER_GRANTS, GRANTS, GatewayPolicy, ModelRequest
from agentv_sandbox.models_api.prices import Price, PriceList
from agentv_sandbox.models_api.recordings.canonical import Scope
from agentv_sandbox.models_api.recordings.recording import RecordedReply, Recorder, asked_by, current_scope
from agentv_sandbox.models_api.recordings.replaying import Player, Tape, TapeUse
from agentv_sandbox.models_api.records import LlmReply, LlmRequest
from agentv_sandbox.models_api.servers import Server, is_model_server
from agentv_sandbox.models_api.waits import may_ask_to_wait

__all__ = [
    "APIS",
    "BODY_BYTES",
    "BOUNDS",
    "FORMER_GRANTS",
    "GRANTS",
    "KEY_HEADERS",
    "MOST_ADDED_S",
    "Admitted",
    "Bounds",
    "CallLog",
    "Denial",
    "GatewayPolicy",
    "GoneAway",
    "HeardAnswers",
    "KeyLimit",
    "LimitAnswer",
    "LimitWait",
    "LlmClient",
    "LlmReply",
    "LlmRequest",
    "Meter",
    "ModelCall",
    "ModelGateway",
    "ModelRequest",
    "ModelUse",
    "Player",
    "Price",
    "PriceList",
    "RateLimits",
    "RecordedReply",
    "Recorder",
    "RequestBudget",
    "Scope",
    "Server",
    "Tape",
    "TapeUse",
    "WaitClock",
    "asked_by",
    "current_scope",
    "examine",
    "is_model_server",
    "may_ask_to_wait",
    "refusal",
    "trajectory",
]
