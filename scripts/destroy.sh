#!/usr/bin/env bash
# Removes what deploy.sh made, except for data and what other deployments may need: the database,
# its counters, its rules, its TTL policy and index exemptions stay, and so do the APIs and the role
# of Eventarc's agent. Safe to run again.
set -euo pipefail

me=${COUNTERS_PROGRAM:+counters destroy} # which runs this without a checkout
me=${me:-scripts/destroy.sh}

usage() {
  sed "1s|scripts/destroy.sh|$me|" <<'HELP'
Usage: scripts/destroy.sh --project P --region R [options]

  --project P      project that was deployed to
  --region R       region of the functions
  --prefix NAME    what was given to deploy (default: counters)
  --yes            don't ask
  --dry-run        print each command, run none
  --help

The database, its TTL policy and index exemptions, the APIs and the role of Eventarc's agent stay.
Images in a repository that --docker-repository named stay, too.
Counters keep their totals and shards; nothing adds to totals any more. What a client still writes to shards is counted
when the functions are deployed again, by the first roll-up or Reconcile.
HELP
}

code=2 # the arguments are wrong, until they are checked
fail() {
  echo "${me##*/}: $*" >&2
  exit $code
}

project='' region='' prefix=counters yes=no dry_run=no
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
    *) fail "$flag: unknown option. See --help" ;;
  esac
  shift
done
[[ -n $project ]] || fail "--project is missing. See --help"
[[ -n $region ]] || fail "--region is missing: that of the functions. See gcloud functions list"
code=1

if [[ $yes == no && $dry_run == no ]]; then
  read -r -p "Remove $prefix-increment, $prefix-rollup and $prefix-reconcile from $project? [y/N] " answer || true
  [[ ${answer:-} == [yY]* ]] || fail "nothing was removed"
fi

export CLOUDSDK_CORE_DISABLE_PROMPTS=1 # a prompt would wait unseen
failed=no

account() { echo "$prefix-$1@$project.iam.gserviceaccount.com"; }

# What there is. A dry run asks nothing, and shows what is removed where everything is there.
list() { # what a dry run takes to be there -- question
  local presumed=$1
  shift 2
  if [[ $dry_run == yes ]]; then
    printf '%s\n' "$presumed"
  elif ! "$@"; then
    echo "${me##*/}: can't read what there is to remove" >&2
    return 1
  fi
}

has() { # line, lines
  [[ $'\n'$2$'\n' == *$'\n'"$1"$'\n'* ]]
}

# One failure doesn't keep the rest from going.
remove() {
  if [[ $dry_run == yes ]]; then
    printf '%q ' "$@"
    echo
  elif ! "$@"; then
    failed=yes
  fi
}

functions=$(list "$(printf "$prefix-%s|$region\n" rollup reconcile increment)" -- \
  gcloud functions list --v2 --project="$project" --format='value[separator="|"](name.basename(),name.segment(3))') || failed=yes
for name in rollup reconcile increment; do
  elsewhere=$(sed -n "s/^$prefix-$name|//p" <<<"$functions")
  [[ -z $elsewhere ]] || has "$region" "$elsewhere" || fail "$prefix-$name is in ${elsewhere//$'\n'/ and }, not in $region; nothing was removed"
done

jobs=$(list "$prefix-reconcile" -- gcloud scheduler jobs list --project="$project" --location="$region" --format='value(name.basename())') || failed=yes
! has "$prefix-reconcile" "$jobs" || remove gcloud scheduler jobs delete "$prefix-reconcile" --project="$project" --location="$region"

# The triggers of the collections whose documents are counted.
triggers=$(list "$prefix-watch-HASH|LOCATION" -- gcloud eventarc triggers list --project="$project" --location=- --format='value[separator="|"](name.basename(),name.segment(3))') || failed=yes
while IFS='|' read -r name location; do
  [[ ! $name =~ ^$prefix-watch-([0-9a-f]{8}|HASH)$ ]] || remove gcloud eventarc triggers delete "$name" --project="$project" --location="$location"
done <<<"$triggers"

# Rollup goes first, and its trigger with it: an event that finds no function is gone, which is as
# well.
for name in rollup reconcile increment; do
  ! has "$prefix-$name|$region" "$functions" ||
    remove gcloud functions delete "$prefix-$name" --gen2 --project="$project" --region="$region"
done

# With the images, and who may write them. Those in a repository of yours stay, with a grant to nobody.
repositories=$(list "$prefix-functions" -- gcloud artifacts repositories list --project="$project" --location="$region" --format='value(name.basename())') || failed=yes
! has "$prefix-functions" "$repositories" || remove gcloud artifacts repositories delete "$prefix-functions" --project="$project" --location="$region"

# Grants before accounts, or they stay behind as grants of deleted accounts.
presumed=$(
  for name in increment rollup reconcile; do echo "roles/datastore.user|serviceAccount:$(account $name)"; done
  for role in logging.logWriter storage.objectViewer; do echo "roles/$role|serviceAccount:$(account build)"; done
  echo "roles/eventarc.eventReceiver|serviceAccount:$(account eventarc)"
)
grants=$(list "$presumed" -- gcloud projects get-iam-policy "$project" --flatten='bindings[].members' \
  --format='value[separator="|"](bindings.role,bindings.members)') || failed=yes
accounts=$(list "$(for name in increment rollup reconcile eventarc scheduler build; do account $name; done)" -- \
  gcloud iam service-accounts list --project="$project" --format='value(email)') || failed=yes
for name in increment rollup reconcile eventarc scheduler build; do
  while IFS='|' read -r role member; do
    [[ $member != "serviceAccount:$(account $name)" ]] ||
      remove gcloud projects remove-iam-policy-binding "$project" --member="$member" --role="$role" --all --format=none
  done < <(sort -u <<<"$grants")
  ! has "$(account $name)" "$accounts" || remove gcloud iam service-accounts delete "$(account $name)" --project="$project"
done

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
displayed() { # file: prints what the policy made of it is called
  # shellcheck disable=SC2016 # the placeholder is the file's
  sed -n 's/^  "displayName": "\(.*\)",$/\1/p' "$1" | sed 's/${prefix}/'"$prefix"'/'
}
# The lists are searched here: with --filter and --limit gcloud applies the limit first.
named() { # displayed name, lines of name|displayed name: prints the lines' names
  awk -F'|' -v want="$1" '$2 == want { print $1 }' <<<"$2"
}
policies=$(list "$(for file in "$root"/terraform/monitoring/alerts/*.json; do echo "ALERT_POLICY|$(displayed "$file")"; done)" -- \
  gcloud alpha monitoring policies list --project="$project" --format='value[separator="|"](name,displayName)') || failed=yes
for file in "$root"/terraform/monitoring/alerts/*.json; do
  for id in $(named "$(displayed "$file")" "$policies"); do
    remove gcloud alpha monitoring policies delete "$id" --project="$project"
  done
done
dashboards=$(list "DASHBOARD|$prefix" -- gcloud monitoring dashboards list --project="$project" --format='value[separator="|"](name,displayName)') || failed=yes
for id in $(named "$prefix" "$dashboards"); do
  remove gcloud monitoring dashboards delete "$id" --project="$project"
done
metrics=$(list "$(for file in "$root"/terraform/monitoring/metrics/*.json; do echo "${prefix}_$(basename "$file" .json)"; done)" -- \
  gcloud logging metrics list --project="$project" --format='value(name)') || failed=yes
for file in "$root"/terraform/monitoring/metrics/*.json; do
  metric=${prefix}_$(basename "$file" .json)
  ! has "$metric" "$metrics" || remove gcloud logging metrics delete "$metric" --project="$project"
done

# Looked for only where one may be: it takes a role on the billing account.
apis=$(list billingbudgets.googleapis.com -- gcloud services list --enabled --project="$project" --format='value(config.name)') || failed=yes
if has billingbudgets.googleapis.com "$apis"; then
  billing=$(list BILLING_ACCOUNT -- gcloud billing projects describe "$project" --format='value(billingAccountName.basename())') || failed=yes
  budgets=$(list "BUDGET|$prefix in $project" -- gcloud billing budgets list --billing-account="$billing" --billing-project="$project" --format='value[separator="|"](name,displayName)') || failed=yes
  for id in $(named "$prefix in $project" "$budgets"); do
    remove gcloud billing budgets delete "$id" --billing-project="$project"
  done
fi

exclusions=$(list "$prefix-requests" -- gcloud logging sinks describe _Default --project="$project" --flatten='exclusions[]' --format='value(exclusions.name)') || failed=yes
! has "$prefix-requests" "$exclusions" || remove gcloud logging sinks update _Default --project="$project" --remove-exclusions="$prefix-requests" --format=none

[[ $failed == no ]] || fail "some of it could not be read or removed; see above, and run this again"
