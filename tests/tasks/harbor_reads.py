"""Runs where Harbor is: read the job folders below a folder as its viewer does, and count them as it does. Anything
that it cannot read is an error."""

import sys
from pathlib import Path

from harbor.models.job.result import JobStats
from harbor.models.trajectories import Trajectory
from harbor.viewer.scanner import JobScanner


def main(folder):
    scanner = JobScanner(folder)
    for job in scanner.list_jobs():
        result = scanner.get_job_result(job)
        assert scanner.get_job_config(job) is not None
        trials = scanner.list_trials(job)
        read = [scanner.get_trial_result(job, name) for name in trials]
        assert None not in (*read, *(scanner.get_trial_config(job, name) for name in trials))
        for path in folder.glob(f"{job}/*/agent/trajectory.json"):
            Trajectory.model_validate_json(path.read_text())
        counted = JobStats.from_trial_results(read)
        assert counted.n_errored_trials == result.stats.n_errored_trials
        assert result.n_total_trials == len(trials) == result.stats.n_completed_trials
        for name, stats in counted.evals.items():
            ours = result.stats.evals[name]
            assert (stats.n_trials, stats.n_errors) == (ours.n_trials, ours.n_errors)
            assert {k: {v: sorted(t) for v, t in each.items()} for k, each in stats.reward_stats.items()} == {
                k: {v: sorted(t) for v, t in each.items()} for k, each in ours.reward_stats.items()
            }
        print(f"read {len(trials)} trials of {job}")


main(Path(sys.argv[1]))
