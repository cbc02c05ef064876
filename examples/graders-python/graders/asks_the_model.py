"""Asks the grader's model through the proxy: no key and no network in this container."""

import json

from agentv_sandbox.sdk import define_code_grader, llm_target


@define_code_grader
def grade(case):
    target = llm_target()
    reply = target.invoke(
        f"Is this correct? Answer as JSON with a score from 0 to 1.\n\n{case.answer}",
        system_prompt="You are an expert grader.",
    )
    return {
        "score": json.loads(reply)["score"],
        "details": {"calls_left": target.info()["maxCalls"] - target.info()["callCount"]},
    }
