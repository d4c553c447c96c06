#!/usr/bin/env bash
# Formats, validates and tests the module with terraform itself and the real providers. Where these
# can't be had, Go tests check syntax and formatting, and what terraform plans with a stand-in for
# them: names of arguments, and the agreement with settings, documentation and counters deploy.
set -euo pipefail

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
  cat <<'HELP'
Usage: terraform/check.sh

Needs terraform 1.7 or later, or OpenTofu 1.8 or later (TERRAFORM=tofu), and the registry, from which init takes the
providers hashicorp/google, hashicorp/google-beta and hashicorp/archive, or a mirror of it (TF_CLI_CONFIG_FILE).
No project and no credentials: the tests mock the providers.
HELP
  exit 0
fi

if (($# > 0)); then
  echo "check.sh: $1: unknown option. See --help" >&2
  exit 2
fi

cd "$(dirname "${BASH_SOURCE[0]}")"
terraform=${TERRAFORM:-terraform}
if ! command -v "$terraform" >/dev/null; then
  echo "check.sh: $terraform is not on the PATH. Install terraform 1.7 or later, or set TERRAFORM=tofu." >&2
  exit 1
fi

"$terraform" fmt -check -diff -recursive
for dir in . examples/basic; do
  "$terraform" -chdir="$dir" init -backend=false -input=false
  "$terraform" -chdir="$dir" validate
done
"$terraform" test
