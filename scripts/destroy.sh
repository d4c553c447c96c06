#!/usr/bin/env bash
# Removes what deploy.sh made, except for data: the database, its counters, its rules, its TTL policy and index exemptions
# stay, and so do the APIs. Safe to run again.
set -euo pipefail

usage() {
  cat <<'HELP'
Usage: scripts/destroy.sh --project P --region R [options]

  --project P      project that was deployed to
  --region R       region of the functions
  --prefix NAME    what was given to deploy.sh (default: counters)
  --database ID    (default: (default)); part of the roles' condition
  --yes            don't ask
  --dry-run        print each command, run none
  --help

Counters keep their totals and shards; nothing adds to totals any more. What a client still writes to shards is counted
when the functions are deployed again, by the first roll-up or Reconcile.
HELP
}

fail() {
  echo "destroy.sh: $*" >&2
  exit 1
}

project='' region='' prefix=counters database='(default)' yes=no dry_run=no
while (($#)); do
  flag=$1
  shift
  case $flag in
    --help | -h) usage && exit 0 ;;
    --yes) yes=yes && continue ;;
    --dry-run) dry_run=yes && continue ;;
    --*=*) set -- "${flag#*=}" "$@" && flag=${flag%%=*} ;;
  esac
  (($#)) || fail "$flag: unknown option, or no value. See --help"
  case $flag in
    --project) project=$1 ;;
    --region) region=$1 ;;
    --prefix) prefix=$1 ;;
    --database) database=$1 ;;
    *) fail "$flag: unknown option. See --help" ;;
  esac
  shift
done
[[ -n $project ]] || fail "--project is missing. See --help"
[[ -n $region ]] || fail "--region is missing: that of the functions. See gcloud functions list"

if [[ $yes == no && $dry_run == no ]]; then
  read -r -p "Remove $prefix-increment, $prefix-rollup and $prefix-reconcile from $project? [y/N] " answer || true
  [[ ${answer:-} == [yY]* ]] || fail "nothing was removed"
fi

failed=no

# Removes something, unless a question says that it isn't there. One failure doesn't keep the rest from going.
remove() { # question -- command
  local question=()
  while [[ $1 != -- ]]; do
    question+=("$1")
    shift
  done
  shift
  if [[ $dry_run == yes ]]; then
    printf '%q ' "$@"
    echo
  elif ! "${question[@]}" >/dev/null 2>&1; then
    echo "destroy.sh: not there, or not to be read: ${question[*]}" >&2
  elif ! "$@"; then
    failed=yes
  fi
}

account() { echo "$prefix-$1@$project.iam.gserviceaccount.com"; }

remove gcloud scheduler jobs describe "$prefix-reconcile" --project="$project" --location="$region" -- \
  gcloud scheduler jobs delete "$prefix-reconcile" --project="$project" --location="$region" --quiet

# Rollup goes first, and its trigger with it: an event that finds no function is gone, which is as well.
for name in rollup reconcile increment; do
  remove gcloud functions describe "$prefix-$name" --gen2 --project="$project" --region="$region" -- \
    gcloud functions delete "$prefix-$name" --gen2 --project="$project" --region="$region" --quiet
done

# Grants before accounts, or they stay behind as grants of deleted accounts.
revoke() { # account role [condition]
  remove gcloud iam service-accounts describe "$(account "$1")" --project="$project" -- \
    gcloud projects remove-iam-policy-binding "$project" --member="serviceAccount:$(account "$1")" --role="$2" \
    --condition="${3:-None}" --format=none
}
for name in increment rollup reconcile; do
  revoke $name roles/datastore.user \
    "expression=resource.name == \"projects/$project/databases/$database\",title=$prefix-database,description=The counters' database only"
done
for role in roles/artifactregistry.writer roles/logging.logWriter roles/storage.objectViewer; do
  revoke build "$role"
done
revoke eventarc roles/eventarc.eventReceiver
for name in increment rollup reconcile eventarc scheduler build; do
  remove gcloud iam service-accounts describe "$(account $name)" --project="$project" -- \
    gcloud iam service-accounts delete "$(account $name)" --project="$project" --quiet
done

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
for file in "$root"/terraform/monitoring/alerts/*.json; do
  # shellcheck disable=SC2016 # the placeholder is the file's
  name=$(sed -n 's/^  "displayName": "\(.*\)",$/\1/p' "$file" | sed 's/${prefix}/'"$prefix"'/')
  id=ALERT_POLICY
  [[ $dry_run == yes ]] || id=$(gcloud alpha monitoring policies list --project="$project" --filter="displayName=\"$name\"" --format='value(name)' --limit=1 2>/dev/null || true)
  [[ -z $id ]] || remove true -- gcloud alpha monitoring policies delete "$id" --project="$project" --quiet
done
id=DASHBOARD
[[ $dry_run == yes ]] || id=$(gcloud monitoring dashboards list --project="$project" --filter="displayName=\"$prefix\"" --format='value(name)' --limit=1 2>/dev/null || true)
[[ -z $id ]] || remove true -- gcloud monitoring dashboards delete "$id" --project="$project" --quiet
for file in "$root"/terraform/monitoring/metrics/*.json; do
  metric=$prefix'_'$(basename "$file" .json)
  remove gcloud logging metrics describe "$metric" --project="$project" -- \
    gcloud logging metrics delete "$metric" --project="$project" --quiet
done

[[ $failed == no ]] || fail "some of it could not be removed; see above, and run this again"
