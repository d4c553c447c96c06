#!/usr/bin/env bash
# Removes what deploy.sh made, except for data and what other deployments may need, and says what is
# left. Safe to run again.
set -euo pipefail

program=${COUNTERS_PROGRAM:-} # which runs this without a checkout
me=${program:+counters destroy}
me=${me:-scripts/destroy.sh}

usage() {
  sed "1s|scripts/destroy.sh|$me|" <<'HELP'
Usage: scripts/destroy.sh --project P --region R [options]

  --project P      project that was deployed to
  --region R       region of the functions
  --prefix NAME    what was given to deploy (default: counters)
  --everything     remove what other deployments may need, too: the TTL policy, index exemptions and composite indexes,
                   security rules that deploy released, and the role of Eventarc's agent
  --delete-database ID
                   with --everything: the database as well, with all documents in it, yours included
  --set NAME=VALUE a setting that deploy was given, such as DATABASE, COUNTERS or FIELDS, where the functions are gone
                   already: as long as they are there, they say it; may be repeated. Without it, nothing of a database
                   is then removed or listed
  --yes            don't ask
  --dry-run        print each command, to be pasted into bash, and run none but those that ask what is there
  --help

Without --everything that stays, and is listed at the end, each with the command that removes it. The database and its
documents stay, unless they are named. The APIs, rules of an app's own, and images in a repository that
--docker-repository named stay in any case.
Counters keep their totals and shards; nothing adds to totals any more. What a client still writes to shards is counted
when the functions are deployed again, by the first roll-up or Reconcile.
HELP
}

code=2 # the arguments are wrong, until they are checked
fail() {
  echo "${me##*/}: $*" >&2
  exit $code
}

project='' region='' prefix=counters yes=no dry_run=no everything=no doomed='' given=()
while (($#)); do
  flag=$1
  shift
  case $flag in
    --help | -h) usage && exit 0 ;;
    --yes) yes=yes && continue ;;
    --dry-run) dry_run=yes && continue ;;
    --everything) everything=yes && continue ;;
    --*=*) set -- "${flag#*=}" "$@" && flag=${flag%%=*} ;;
  esac
  (($#)) || fail "$flag: unknown option, or no value. See --help"
  case $flag in
    --project) project=$1 ;;
    --region) region=$1 ;;
    --prefix) prefix=$1 ;;
    --set) given+=("$1") ;;
    --delete-database) doomed=$1 ;;
    *) fail "$flag: unknown option. See --help" ;;
  esac
  shift
done
[[ -n $project ]] || fail "--project is missing. See --help"
[[ -n $region ]] || fail "--region is missing: that of the functions. See gcloud functions list"
# As deploy wants them: accounts are called after the id, and a prefix is part of patterns below.
[[ $project =~ ^[a-z][a-z0-9-]{4,28}[a-z0-9]$ ]] || fail "--project $project: want a project's id, which is not its name or number: see gcloud projects list"
[[ $prefix =~ ^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$ ]] || fail "--prefix $prefix: want 1 to 20 lower-case letters, digits and hyphens"
[[ -z $doomed || $everything == yes ]] || fail "--delete-database $doomed: want --everything with it"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ours() { # a command of this project's, and its arguments
  if [[ -n $program ]]; then "$program" "$@"; else (cd "$root" && go run ./cmd/counters "$@"); fi
}
settings=$(ours settings --check --shell -- ${given[@]+"${given[@]}"}) || fail "nothing was removed: see above, and docs/settings.md"
code=1

if [[ $yes == no && $dry_run == no ]]; then
  question="Remove $prefix-increment, $prefix-rollup and $prefix-reconcile from $project"
  [[ $everything == no ]] || question+=", and what other deployments of counters there may need"
  [[ -z $doomed ]] || question+=", and the database $doomed with all documents in it"
  read -r -p "$question? [y/N] " answer || true
  [[ ${answer:-} == [yY]* ]] || fail "nothing was removed"
fi

export CLOUDSDK_CORE_DISABLE_PROMPTS=1 # a prompt would wait unseen
failed=no

account() { echo "$prefix-$1@$project.iam.gserviceaccount.com"; }

# What there is. A dry run asks as well, or nobody could run what it prints.
list() { # question
  "$@" || { echo "${me##*/}: can't read what there is to remove" >&2 && return 1; }
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

functions=$(list gcloud functions list --v2 --project="$project" --format='value[separator="|"](name.basename(),name.segment(3))') || fail "nothing was removed"

# What the functions' settings come to, as long as one of them says what they are. By the defaults, what is removed could be
# another deployment's.
known=no
for name in rollup reconcile increment; do
  if [[ $known == no ]] && has "$prefix-$name|$region" "$functions"; then
    said=$(list gcloud functions describe "$prefix-$name" --gen2 --project="$project" --region="$region" \
      --format='value[separator="|"](serviceConfig.environmentVariables.DATABASE,serviceConfig.environmentVariables.COUNTERS,serviceConfig.environmentVariables.FIELDS,serviceConfig.environmentVariables.SHARDS,serviceConfig.environmentVariables.HOSTED)') || fail "nothing was removed"
    [[ $said != *'|'* ]] || {
      known=yes given=()
      IFS='|' read -r of_database of_counters of_fields of_shards of_hosted <<<"$said"
      for setting in "DATABASE=$of_database" "COUNTERS=$of_counters" "FIELDS=$of_fields" "SHARDS=$of_shards" "HOSTED=$of_hosted"; do
        [[ $setting == *= ]] || given+=("$setting")
      done
      settings=$(ours settings --check --shell -- ${given[@]+"${given[@]}"}) || fail "the settings of $prefix-$name are not ones; nothing was removed"
    }
  fi
done
[[ " ${given[*]-}" != *' DATABASE='* ]] || known=yes
database='' collection='' indexes=() # and more, which is not asked here
eval "$settings"
for name in rollup reconcile increment; do
  elsewhere=$(sed -n "s/^$prefix-$name|//p" <<<"$functions")
  [[ -z $elsewhere ]] || has "$region" "$elsewhere" || fail "$prefix-$name is in ${elsewhere//$'\n'/ and }, not in $region; nothing was removed"
done
[[ $known == yes || $everything == no ]] ||
  fail "the functions are gone, which say what database is theirs: say --set DATABASE=…, and COUNTERS, FIELDS and SHARDS where they were set; nothing was removed"
[[ -z $doomed || $doomed == "$database" ]] || fail "--delete-database $doomed: the counters are in $database; nothing was removed"

jobs=$(list gcloud scheduler jobs list --project="$project" --location="$region" --format='value(name.basename())') || failed=yes
! has "$prefix-reconcile" "$jobs" || remove gcloud scheduler jobs delete "$prefix-reconcile" --project="$project" --location="$region"

# The triggers of the collections whose documents are counted.
triggers=$(list gcloud eventarc triggers list --project="$project" --location=- --format='value[separator="|"](name.basename(),name.segment(3))') || failed=yes
while IFS='|' read -r name location; do
  [[ ! $name =~ ^$prefix-watch-[0-9a-f]{8}$ ]] || remove gcloud eventarc triggers delete "$name" --project="$project" --location="$location"
done <<<"$triggers"

# Rollup goes first, and its trigger with it: an event that finds no function is gone, which is as
# well.
for name in rollup reconcile increment; do
  ! has "$prefix-$name|$region" "$functions" ||
    remove gcloud functions delete "$prefix-$name" --gen2 --project="$project" --region="$region"
done

# With the images, and who may write them. Those in a repository of yours stay, with a grant to nobody.
repositories=$(list gcloud artifacts repositories list --project="$project" --location="$region" --format='value(name.basename())') || failed=yes
! has "$prefix-functions" "$repositories" || remove gcloud artifacts repositories delete "$prefix-functions" --project="$project" --location="$region"

# Grants before accounts, or they stay behind as grants of deleted accounts.
grants=$(list gcloud projects get-iam-policy "$project" --flatten='bindings[].members' \
  --format='value[separator="|"](bindings.role,bindings.members)') || failed=yes
accounts=$(list gcloud iam service-accounts list --project="$project" --format='value(email)') || failed=yes
for name in increment rollup reconcile eventarc scheduler build; do
  while IFS='|' read -r role member; do
    [[ $member != "serviceAccount:$(account $name)" ]] ||
      remove gcloud projects remove-iam-policy-binding "$project" --member="$member" --role="$role" --all --format=none
  done < <(sort -u <<<"$grants")
  ! has "$(account $name)" "$accounts" || remove gcloud iam service-accounts delete "$(account $name)" --project="$project"
done

displayed() { # file: prints what the policy made of it is called
  # shellcheck disable=SC2016 # the placeholder is the file's
  sed -n 's/^  "displayName": "\(.*\)",$/\1/p' "$1" | sed 's/${prefix}/'"$prefix"'/'
}
# The lists are searched here: with --filter and --limit gcloud applies the limit first.
named() { # displayed name, lines of name|displayed name: prints the lines' names
  awk -F'|' -v want="$1" '$2 == want { print $1 }' <<<"$2"
}
policies=$(list gcloud alpha monitoring policies list --project="$project" --format='value[separator="|"](name,displayName)') || failed=yes
for file in "$root"/terraform/monitoring/alerts/*.json; do
  for id in $(named "$(displayed "$file")" "$policies"); do
    remove gcloud alpha monitoring policies delete "$id" --project="$project"
  done
done
dashboards=$(list gcloud monitoring dashboards list --project="$project" --format='value[separator="|"](name,displayName)') || failed=yes
for id in $(named "$prefix" "$dashboards"); do
  remove gcloud monitoring dashboards delete "$id" --project="$project"
done
metrics=$(list gcloud logging metrics list --project="$project" --format='value(name)') || failed=yes
for file in "$root"/terraform/monitoring/metrics/*.json; do
  metric=${prefix}_$(basename "$file" .json)
  ! has "$metric" "$metrics" || remove gcloud logging metrics delete "$metric" --project="$project"
done

# Looked for only where one may be: it takes a role on the billing account.
apis=$(list gcloud services list --enabled --project="$project" --format='value(config.name)') || failed=yes
if has billingbudgets.googleapis.com "$apis"; then
  billing=$(list gcloud billing projects describe "$project" --format='value(billingAccountName.basename())') || failed=yes
  budgets=$(list gcloud billing budgets list --billing-account="$billing" --billing-project="$project" --format='value[separator="|"](name,displayName)') || failed=yes
  for id in $(named "$prefix in $project" "$budgets"); do
    remove gcloud billing budgets delete "$id" --billing-project="$project"
  done
fi

exclusions=$(list gcloud logging sinks describe _Default --project="$project" --flatten='exclusions[]' --format='value(exclusions.name)') || failed=yes
! has "$prefix-requests" "$exclusions" || remove gcloud logging sinks update _Default --project="$project" --remove-exclusions="$prefix-requests" --format=none

# What was uploaded, which the platform keeps of functions that are gone.
number=$(list gcloud projects describe "$project" --format='value(projectNumber)') || failed=yes
sources=gs://gcf-v2-sources-$number-$region
objects=$(gcloud storage ls "$sources" --project="$project" 2>/dev/null) || objects='' # there is no such bucket where nothing was deployed
for name in increment reconcile rollup; do
  ! has "$sources/$prefix-$name/" "$objects" || remove gcloud storage rm --recursive "$sources/$prefix-$name/" --project="$project"
done

### What other deployments may need.

stays=() # what stays, and the command that removes it, in turn
also() { # what it is, command…: removes it, or says that it stays
  local what=$1
  shift
  if [[ $everything == yes ]]; then
    remove "$@"
  else
    stays+=("$what" "$(printf '%q ' "$@")")
  fi
}

databases=''
if [[ $known == yes ]]; then
  databases=$(list gcloud firestore databases list --project="$project" --format='value(name.basename())') || failed=yes
else
  echo "${me##*/}: what is in the database stays, and isn't listed: the functions are gone, which say what database is theirs. See --set" >&2
fi
in_database=(--project="$project" --database="$database")
if has "$database" "$databases" && { [[ $everything == no || $doomed != "$database" ]]; }; then
  policies=$(list gcloud firestore fields ttls list "${in_database[@]}" --format='value[separator="."](name.segment(5),name.segment(7))') || failed=yes
  ! has counter_requests.expire_at "$policies" ||
    also "the TTL policy of counter_requests.expire_at" gcloud firestore fields ttls update expire_at "${in_database[@]}" --collection-group=counter_requests --disable-ttl --format=none
  fields=$(printf '%s\n' counter_requests.expire_at counter_rollup.{states,answers,ops} "$collection".{updated_at,created_at,counter_rollup})
  changed=$(list gcloud firestore indexes fields list "${in_database[@]}" --format='value[separator=" "](name.segment(5),name.segment(7),indexConfig.indexes.len())') || failed=yes
  exempted=$(sed 's/ [0-9]*$//; s/ /./' <<<"$changed")
  for field in $fields; do
    ! has "$field" "$exempted" || also "the exemption of $field from indexes" \
      gcloud firestore indexes fields update "${field#*.}" "${in_database[@]}" --collection-group="${field%%.*}" --clear-exemption --format=none
  done
  if ((${#indexes[@]} > 0)); then
    composite=$(list gcloud firestore indexes composite list "${in_database[@]}" \
      --format='value[separator=" "](name.basename(),name.segment(5),queryScope,fields.extract(fieldPath).flatten(separator=" "))') || failed=yes
    for index in "${indexes[@]}"; do # one field of a group, beside the indexes that it has in each collection
      read -r group _ field more <<<"$index"
      [[ -n $more ]] || ! has "$group $field 4" "$changed" || also "the index of $group.$field in the collection group" \
        gcloud firestore indexes fields update "$field" "${in_database[@]}" --collection-group="$group" --clear-exemption --format=none
    done
    while read -r id index; do
      index=${index% __name__}
      ! has "$index" "$(printf '%s\n' "${indexes[@]}")" || also "the composite index of $index" gcloud firestore indexes composite delete "$id" "${in_database[@]}"
    done <<<"$composite"
  fi
fi

# Rules that deploy released are known by the name of their file. gcloud has no command for them.
rules_at=${CLOUDSDK_API_ENDPOINT_OVERRIDES_FIREBASERULES:-https://firebaserules.googleapis.com/}v1/projects/$project
rules() { # path: prints what is there
  local status
  status=$(curl -sS -m 60 -o "$scratch/answer" -w '%{http_code}' -H @- "$rules_at/$1" <<<"Authorization: Bearer $(gcloud auth print-access-token)
X-Goog-User-Project: $project") || return 1
  case $status in
    2*) cat "$scratch/answer" ;;
    404) ;;
    *) cat "$scratch/answer" >&2 && return 1 ;;
  esac
}
values_of() { tr ',{}' '\n' | sed -n 's/.*"'"$1"'": *"\([^"]*\)".*/\1/p'; } # a key of JSON: one a line
if [[ $known == yes ]] && has firebaserules.googleapis.com "$apis"; then
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  release=releases/cloud.firestore
  [[ $database == '(default)' ]] || release+=/$database
  ruleset=$(list rules "$release" | values_of rulesetName) || failed=yes
  ruleset=${ruleset#"projects/$project/"}
  files=''
  [[ -z $ruleset ]] || files=$(list rules "$ruleset" | values_of name) || failed=yes
  [[ $files != *counters-*.rules* ]] || also "the security rules that deploy released; without them clients read nothing" bash -c \
    "for path in $release $ruleset; do curl -sSf -X DELETE -H 'X-Goog-User-Project: $project' -H \"Authorization: Bearer \$(gcloud auth print-access-token)\" $rules_at/\$path; done"
fi

agent=serviceAccount:service-$number@gcp-sa-eventarc.iam.gserviceaccount.com
# Ours are gone by now, but in a dry run.
others=$(list gcloud eventarc triggers list --project="$project" --location=- --format='value(name.basename())' | sed -E "/^$prefix-(watch-[0-9a-f]{8}|rollup-[0-9]+)$/d") || failed=yes
! has "roles/eventarc.serviceAgent|$agent" "$grants" || [[ -n $others ]] || also "the role of Eventarc's agent" \
  gcloud projects remove-iam-policy-binding "$project" --member="$agent" --role=roles/eventarc.serviceAgent --all --format=none

if has "$database" "$databases"; then
  if [[ $doomed == "$database" ]]; then
    remove gcloud firestore databases update "${in_database[@]}" --no-delete-protection --format=none
    remove gcloud firestore databases delete "${in_database[@]}" --format=none
  else
    stays+=("the database $database, with its documents and rules" "$(printf '%q ' gcloud firestore databases delete "${in_database[@]}")")
  fi
fi
if ((${#stays[@]} > 0)); then
  echo "${me##*/}: what stays, and the command that removes it:" >&2
  for ((i = 0; i < ${#stays[@]}; i += 2)); do
    printf '  %s\n    %s\n' "${stays[i]}" "${stays[i + 1]}" >&2
  done
fi
echo "${me##*/}: the APIs stay turned on: gcloud services list --enabled --project=$project" >&2

# The functions may be gone by then.
((${#given[@]} > 0)) || [[ $known == no ]] || given=("DATABASE=$database")
again=$(printf ' --set %q' ${given[@]+"${given[@]}"})
[[ $failed == no ]] || fail "some of it could not be read or removed; see above, and run this again${given[0]+, with$again}"
