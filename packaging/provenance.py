#!/usr/bin/env python3
"""Usage: provenance.py RELEASE VERSION COMMIT

Prints where the files of a release come from: a SLSA provenance v1 as in-toto statement. Its subjects are SHA256SUMS of the folder
RELEASE and the files that it lists. `bn-verify-receipt sign` signs it. The packages of Debian that were used are lines "name version
architecture" of the files ../used/*.txt next to RELEASE. The same files give the same bytes.
"""
import glob
import hashlib
import json
import os
import sys

release, version, commit = sys.argv[1:]
env = os.environ.get
sums = os.path.join(release, "SHA256SUMS")
subjects = {"SHA256SUMS": hashlib.sha256(open(sums, "rb").read()).hexdigest()}
for line in open(sums):
    digest, name = line.split()
    subjects[name] = digest

repository = env("GITHUB_SERVER_URL", "https://bn.invalid") + "/" + env("GITHUB_REPOSITORY", "bn")
dependencies = [{"uri": f"git+{repository}@refs/tags/v{version}", "digest": {"gitCommit": commit}}]
used = {tuple(line.split()) for file in glob.glob(os.path.join(release, "../used/*.txt")) for line in open(file)}
for name, of, arch in sorted(used):
    dependencies.append({"uri": f"pkg:deb/debian/{name}@{of}?arch={arch}", "name": name})

run = {"builder": {"id": "https://bn.invalid/release/by-hand"}}
if env("GITHUB_ACTIONS"):
    run["builder"]["id"] = f"{env('GITHUB_SERVER_URL')}/{env('GITHUB_WORKFLOW_REF')}"
    run["metadata"] = {"invocationId": f"{repository}/actions/runs/{env('GITHUB_RUN_ID')}/attempts/{env('GITHUB_RUN_ATTEMPT')}"}
json.dump({
    "_type": "https://in-toto.io/Statement/v1",
    "subject": [{"name": name, "digest": {"sha256": subjects[name]}} for name in sorted(subjects)],
    "predicateType": "https://slsa.dev/provenance/v1",
    "predicate": {
        "buildDefinition": {
            "buildType": "https://bn.invalid/release/v1",
            "externalParameters": {"version": version, "commit": commit},
            "resolvedDependencies": dependencies,
        },
        "runDetails": run,
    },
}, sys.stdout, indent=2)
print()
