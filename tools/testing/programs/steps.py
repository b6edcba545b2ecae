#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turns the steps of a workflow of GitHub into a script for bash, as the runner would run them. Knows
what the workflows of this project have: one job, commands, actions/checkout, and this action."""

import shlex
import sys

import yaml

ACTION, CHECKOUT = "OWNER/rsiw@VERSION", "actions/checkout@"
STEP_KEYS = {"name", "run", "uses", "with", "env"}
# The folder of the action, and the image that it would fetch.
HERE = "/home/runner/action"


def step(about):
    """The lines of one step."""
    unknown = set(about) - STEP_KEYS
    if unknown:
        sys.exit(f"a step has {', '.join(unknown)}, which this does not know")
    env = {k: str(v) for k, v in about.get("env", {}).items()}
    if "run" in about:
        command = ["bash", "-eo", "pipefail", "-c", about["run"]]
    elif about["uses"].startswith(CHECKOUT):
        return []
    elif about["uses"] == ACTION:
        given = about.get("with", {})
        unknown = set(given) - {"run", "options"}
        if unknown:
            sys.exit(f"the action is given {', '.join(unknown)}")
        env |= {"COMMANDS": given["run"], "IMAGE": f"{HERE}/rsiw-run.img", "SHA256": "",
                "GITHUB_ACTION_PATH": HERE,
                # What this host can do is known; the action would try.
                "OPTIONS": f"--accel $ACCEL {given.get('options', '')}"}
        command = [f"{HERE}/run/action"]
    else:
        sys.exit(f"a step uses {about['uses']}, which this does not know")
    words = ["env"] + [f"{k}={v}" for k, v in env.items()] + command
    return [f"echo {shlex.quote('## ' + about.get('name', about.get('uses', 'run')))}",
            shlex.join(words).replace("$ACCEL", "'\"$ACCEL\"'")]


def main():
    if len(sys.argv) != 2 or sys.argv[1] == "--help":
        print("usage: steps.py WORKFLOW    prints a script with the steps of its job")
        return int(sys.argv[1:] != ["--help"])
    with open(sys.argv[1], encoding="utf-8") as f:
        jobs = yaml.safe_load(f)["jobs"]
    if len(jobs) != 1:
        sys.exit("there has to be one job")
    (job,) = jobs.values()
    if job["runs-on"] != "ubuntu-24.04":
        sys.exit("the job has to run on ubuntu-24.04")
    lines = ["set -e", "cd /home/runner/work"]
    for about in job["steps"]:
        lines += step(about)
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
