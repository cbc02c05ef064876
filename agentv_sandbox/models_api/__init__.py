"""APIs of models: ``dialects/`` has one file an API with all that is known of it; streams, usage, prices, servers.

Agents meet an API through ``gateway``, targets and judges are asked by ``modelclient``, ``modelcalls`` keeps recordings
and rate limits of both.
"""
