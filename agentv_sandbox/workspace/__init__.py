"""The workspace before the agent and after: template, repositories, shared and kept ones; `collect` reads what an
agent left, `preprocess` makes text of it.
"""
