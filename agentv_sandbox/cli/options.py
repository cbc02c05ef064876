"""Options of the commands: names, help, and checks whose messages say what was found and what may be written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, cast

import typer
from typer.models import OptionInfo

from agentv_sandbox.cli.numbers import count, number_between
from agentv_sandbox.engines.table import ENGINES
from agentv_sandbox.engines.tier import LEVELS
from agentv_sandbox.graders.base import PASS_SCORE
from agentv_sandbox.loading.suite_docs import parse_size


def size(value: str) -> int:
    """A parser of sizes."""
    try:
        return parse_size(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def parsed_option(parser: Callable[..., object], metavar: str, text: str, *, default: str) -> OptionInfo:
    """An option whose value ``parser`` reads; ``default`` says what holds without it."""
    return cast(OptionInfo, typer.Option(parser=parser, metavar=metavar, help=text, show_default=default))


Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH", help="Eval files, folders or globs.", show_default=False)
]
OptionalPaths = Annotated[
    list[Path] | None, typer.Argument(metavar="PATH", help="Eval files, folders or globs.")
]
TargetNames = Annotated[
    list[str] | None,
    typer.Option("--target", metavar="NAME", help="Target to evaluate; may be repeated.", show_default=False),
]
TargetsFile = Annotated[
    Path | None,
    typer.Option("--targets", metavar="FILE", help="Targets file, instead of looking for targets.yaml."),
]
AllowOutside = Annotated[
    bool, typer.Option("--allow-outside", help="Let suites refer to files outside their project.")
]
Frozen = Annotated[
    bool, typer.Option("--frozen", help="Use exactly what agentv-sandbox.lock says, or refuse.")
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="What the run came to as JSON on stdout; all else on stderr."),
]
Serve = Annotated[
    bool,
    typer.Option(
        "--serve", help="Show the page of the run while it goes on, on 127.0.0.1 under a secret address."
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens, step by step.")]
Engine = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help=f"Kind of engine: {', '.join(ENGINES)}.",
        show_default="the first that answers",
    ),
]
Runtime = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="OCI runtime: one that the engine knows, such as runsc; natively its program.",
        show_default="the engine's",
    ),
]

# -- of ``run`` alone ------------------------------------------------------------------------------------
Workers = Annotated[
    int | None, parsed_option(count(1, 50), "N", "Tests at a time, 1 to 50.", default="the suite's, else 3")
]
Threshold = Annotated[
    float | None,
    parsed_option(
        number_between(0, 1), "N", "Score, 0 to 1, from which a test passes.", default=str(PASS_SCORE)
    ),
]
TestIds = Annotated[
    list[str] | None,
    typer.Option(
        "--test-id",
        metavar="GLOB",
        help="Run only tests whose id matches; may be repeated.",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        show_default=False,
        help="Run folder, new or empty unless a run goes on in it; else .agentv/results/runs/EXPERIMENT/TIME.",
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Go on in --output, or in the last run of these suites: tests without a verdict."
    ),
]
RerunFailed = Annotated[
    bool, typer.Option("--rerun-failed", help="As --resume, and run tests below their threshold again, too.")
]
RetryErrors = Annotated[
    Path | None,
    typer.Option(
        "--retry-errors",
        metavar="RUN",
        show_default=False,
        help="As --resume from the run folder RUN, which stays as it is: results are in a new one.",
    ),
]
Experiment = Annotated[str, typer.Option(metavar="NAME", help="Name that groups runs.")]
GraderTarget = Annotated[
    str | None, typer.Option(metavar="NAME", help="Target that all LLM graders use.", show_default=False)
]
MaxRetries = Annotated[
    int | None,
    parsed_option(count(0, 20), "N", "More attempts of an agent that fails.", default="the target's, else 0"),
]
AgentTimeout = Annotated[
    float | None,
    parsed_option(
        number_between(0.1), "SECONDS", "Time an agent may take.", default="the target's, else 1200"
    ),
]
Memory = Annotated[
    int | None, parsed_option(size, "SIZE", "Memory of an agent, such as 2g.", default="the suite's, else 1g")
]
Cpus = Annotated[
    float | None,
    parsed_option(number_between(0.01), "N", "Processors of an agent.", default="the suite's, else 1"),
]
Pids = Annotated[
    int | None,
    parsed_option(count(1), "N", "Processes and threads of an agent.", default="the suite's, else 256"),
]
WorkspaceSize = Annotated[
    int | None,
    parsed_option(
        size, "SIZE", "Size of a workspace, such as 2g.", default="the suite's, else its files and 512m"
    ),
]
TmpSize = Annotated[
    int | None,
    parsed_option(
        size, "SIZE", "Size of an agent's /tmp, which is also its HOME.", default="the suite's, else 128m"
    ),
]
Record = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="FOLDER",
        help="Keep every call of a model in this new or empty folder.",
        show_default=False,
    ),
]
Replay = Annotated[
    Path | None,
    typer.Option(
        "--replay",
        metavar="FOLDER",
        help="Answer calls of models from a folder that --record made; no model is asked, no key is needed.",
        show_default=False,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Have workers run the tests: tcp://HOST:PORT or tls://HOST:PORT of a Dask scheduler, the file that it "
        "wrote, or local:N for N workers on this machine.",
        show_default="this process",
    ),
]
KeepFailed = Annotated[
    bool, typer.Option("--keep-failed", help="Keep workspaces of failed tests and say how to look inside.")
]
RunFolderPath = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)]
SuitePaths = Annotated[
    list[Path] | None,
    typer.Option(
        "--suite",
        metavar="FILE",
        show_default=False,
        help="Eval file, instead of the one that was run; may be repeated.",
    ),
]
OtherImage = Annotated[
    bool,
    typer.Option(
        "--allow-other-image",
        help="Use the suite's present image, also where it is not the one that the agents ran in.",
    ),
]
TrustPack = Annotated[
    bool,
    typer.Option(
        "--trust-pack",
        help="Use the eval files, threshold and judge that a run recorded, also where it was unpacked. Lists first "
        "what they run, read and ask.",
    ),
]
Follow = Annotated[
    list[str] | None,
    typer.Option(
        "--follow",
        metavar="TEST",
        help="Print what the agent of this test prints, as it prints it. Globs work.",
    ),
]
NoGrade = Annotated[
    bool,
    typer.Option(
        "--no-grade", help="Run the agents, keep all that graders need, and leave grading to `grade`."
    ),
]
RequireTier = Annotated[
    str | None,
    typer.Option(
        metavar="TIER", help=f"Refuse to run below this isolation: {', '.join(LEVELS)}.", show_default=False
    ),
]
