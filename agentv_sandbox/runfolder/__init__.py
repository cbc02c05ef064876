"""What a run writes, and how it is read back: by those who show it, go on in it, grade it again or hand it on.

``folder``     ``RunFolder``: the folder in AgentV's layout, written one test at a time; ``rows`` its lines,
               ``casefiles`` the files of one test, ``redact`` keeps known secrets out of all of it
``reader``     ``Run``: rows and files of a folder whoever wrote it, within bounds
``earlier``    a run that another one goes on with; ``intact`` whether rows and files are as they were written
``captured``   what graders were given, to be graded again
``pack``       a run as one file, and whether anything of it was altered
"""
