"""Results and what people see: run folder, live progress, summary, JUnit and the page.

``runfolder``  the folder in AgentV's layout, ``rows`` its lines, ``casefiles`` one test's files
``redact``     keeps known secrets out of all of it
``progress``   events while a run goes on; ``summary`` what it came to, and the exit status
"""
