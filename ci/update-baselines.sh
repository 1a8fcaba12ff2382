#!/usr/bin/env bash
# Measures the built programs on this machine and saves the run in baselines/, under NAME (main): ci/update-baselines.sh
# [--pull] [NAME] [-- ARGUMENTS of bn-bench run]. The sources must be those of a commit. Then prints what to commit. Each record of
# the ledger has the digest of the model that was measured, in its member model_sha256.
#
# With --pull the change becomes a commit on a branch of its own, and a pull request that a person merges. That needs gh, its
# GH_TOKEN, permission to push to origin, and, on GitHub, the setting that workflows may open pull requests.
set -euo pipefail
cd "$(dirname "$0")/.."
bench=${OUT:-build/gcc}/bn-bench
name=main pull=''
[ "${1:-}" != --pull ] || { pull=1 && shift; }
if [ $# -gt 0 ] && [ "$1" != -- ]; then
    name=$1
    shift
fi
[ $# -eq 0 ] || shift
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"$bench" run --json "$@" >"$tmp/run.json"
"$bench" baseline save "$name" "$tmp/run.json"
git status --short baselines
[ -n "$pull" ] || exit 0
[ -n "$(git status --porcelain baselines)" ] || { echo "update-baselines: nothing changed in baselines/" >&2; exit 1; }
base=$(git rev-parse --abbrev-ref HEAD)
branch=baselines-$(uname -m)-${GITHUB_RUN_ID:-$(git rev-parse --short HEAD)}
subject="baselines: save a run of $(git rev-parse --short HEAD)"
git switch --quiet --create "$branch"
git add baselines
git -c user.name="${GITHUB_ACTOR:-bn}" -c user.email="${GITHUB_ACTOR:-bn}@users.noreply.github.com" commit --quiet --message "$subject" \
    --message "On $(uname -m), by ci/update-baselines.sh."
git push --quiet origin "$branch"
gh pr create --base "${GITHUB_REF_NAME:-$base}" --head "$branch" --title "$subject" \
    --body "Measured by ci/update-baselines.sh on $(uname -m). The ledger becomes what later runs are judged by: look at its figures before merging."
