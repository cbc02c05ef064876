"""The records that move along the pipeline. Frozen, keyword-only, no behaviour beyond themselves.

``suite``      what was loaded: suites, cases, targets
``graders``    one options model per assertion type: the authoring vocabulary and its validation
``container``  what the engine is asked for and what it answers
``case``       what a case produced: response, files, changes, scores
"""
