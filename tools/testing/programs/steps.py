#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turns steps of a workflow of GitHub into a script for bash, as the runner would run them. Knows what
the workflows of this project have: one job, with commands, actions/checkout, and this action at the
end."""

import argparse
import shlex
import sys

import yaml

ACTION, CHECKOUT = "OWNER/rsiw@VERSION", "actions/checkout@"
STEP_KEYS = {"name", "run", "uses", "with", "env"}
# The folder of the action, and the image that it would fetch.
HERE = "/home/runner/action"


def bash(commands):
    """How the runner, and the action in its machine, call it."""
    return ["bash", "-eo", "pipefail", "-c", commands]


def told(about, command):
    """The lines of one step, which says what it is."""
    return [f"echo {shlex.quote('## ' + about.get('name', about.get('uses', 'run')))}", command]


def build(steps):
    """What comes before the action."""
    for about in steps:
        if "run" in about:
            env = [f"{k}={v}" for k, v in about.get("env", {}).items()]
            yield from told(about, shlex.join(["env", *env, *bash(about["run"])]))
        elif not about["uses"].startswith(CHECKOUT):
            sys.exit(f"a step uses {about['uses']}, which this does not know")


def action(about, given):
    """The action's own steps. What this host can do, which the action would try, is known: ACCEL."""
    env = {"COMMANDS": given["run"], "IMAGE": f"{HERE}/rsiw-run.img", "SHA256": "",
           "GITHUB_ACTION_PATH": HERE}
    words = shlex.join(["env"] + [f"{k}={v}" for k, v in env.items()])
    options = shlex.quote(" " + given.get("options", ""))
    return told(about, f"{words} OPTIONS=\"--accel $ACCEL\"{options} {HERE}/run/action")


def run(about, given):
    """The same by rsiw-run, whose words are the arguments of the script."""
    options = given.get("options", "").split()
    return told(about, '"$@" ' + shlex.join([*options, "--", *bash(given["run"])]))


def main():
    parser = argparse.ArgumentParser(description="prints a script for bash, which runs "
                                     "in the folder of the checkout")
    parser.add_argument("part", choices=("build", "action", "run"), help="the steps before the action,"
                        " the action, or what it runs by the arguments of the script")
    parser.add_argument("workflow")
    args = parser.parse_args()
    with open(args.workflow, encoding="utf-8") as f:
        jobs = yaml.safe_load(f)["jobs"]
    if len(jobs) != 1:
        sys.exit("there has to be one job")
    (job,) = jobs.values()
    if job["runs-on"] != "ubuntu-24.04":
        sys.exit("the job has to run on ubuntu-24.04")
    *before, last = job["steps"]
    for about in job["steps"]:
        if unknown := set(about) - STEP_KEYS:
            sys.exit(f"a step has {', '.join(unknown)}, which this does not know")
    if last.get("uses") != ACTION or "env" in last:
        sys.exit("the last step has to be the action, without an environment of its own")
    given = last.get("with", {})
    if unknown := set(given) - {"run", "options"}:
        sys.exit(f"the action is given {', '.join(unknown)}")
    parts = {"build": lambda: build(before), "action": lambda: action(last, given),
             "run": lambda: run(last, given)}
    print("\n".join(["set -e", *parts[args.part]()]))


if __name__ == "__main__":
    main()
