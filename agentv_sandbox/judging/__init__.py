"""What kinds of assertions (`graders`) share: their record, prompts, payloads, replies of judges, templates."""
