#!/usr/bin/env bash
# Deploys counters with gcloud alone: what terraform/ makes, without terraform. Safe to run again:
# what is there is updated or left alone.
set -euo pipefail

# `counters deploy` runs this without a checkout, and says here which program it is.
program=${COUNTERS_PROGRAM:-}
me=${program:+counters deploy} smoke=${program:+counters smoke}
me=${me:-scripts/deploy.sh} smoke=${smoke:-scripts/smoke.sh}

usage() {
  sed "1s|scripts/deploy.sh|$me|" <<'HELP'
Usage: scripts/deploy.sh --project P --location L [options]

  --project P                  project to deploy to
  --location L                 location of its Firestore database: a region, or nam5, nam7, eur3
  --region R                   region of the functions (default: the location, or the region next to a multi-region)
  --trigger-location T         location of the Eventarc trigger: the database's, or a region inside of a multi-region
                               (default: the database's)
  --prefix NAME                begins the name of everything (default: counters)
  --runtime RUNTIME            (default: the newest for Go that the platform supports there)
  --memory SIZE                of an instance, 256Mi at least (default: 512Mi)
  --source FROM                the functions' source, a folder or a release's counters-functions_VERSION.zip (default: that
                               of this version)

  --create-database            create the Firestore database, protected against deletion
  --no-exempt-updated-at       keep the index of updated_at (with HOSTED, of counter_rollup, where it is); it caps all
                               counters at 500 roll-ups a second
  --no-exempt-created-at       keep the index of created_at

  --web-app ORIGIN             let pages of this origin, such as https://app.example, count for users who sign in with
                               Firebase; may be repeated. It stands for --public, for --set AUTH=firebase,
                               ALLOWED_ORIGINS=ORIGIN and, unless HOSTED is set, AUTO_CREATE=true, and for releasing rules
                               by which clients read totals, where the database has none. A --set of yours holds instead
  --invoker MEMBER             let this member call Increment, such as user:you@example.com; may be repeated
  --public                     let the whole internet call Increment: allUsers may
  --no-invoker-check           let the whole internet call Increment: Cloud Run doesn't check who calls. Organisations
                               that share with their own domains only, as new ones do, allow this and refuse allUsers
                               (who may call it already and isn't named is listed at the end, with the command that
                               takes it back)
  --set NAME=VALUE             a setting of the functions, such as AUTO_CREATE=true; may be repeated

  --increment-ingress FROM     all, or internal-and-gclb behind Google's load balancer, so that nobody passes by what
                               stands before it, such as Cloud Armor (default: all)
  --kms-key KEY                encrypt the functions with this key of Cloud KMS, in their region
  --docker-repository R        for their images; with --kms-key, one that is encrypted with the same key
  --database-kms-key KEY       encrypt a database that is created with this key, in the database's location

  --increment-concurrency N    requests an instance takes at a time (default: 500)
  --increment-max-instances N  (default: 10)
  --increment-min-instances N  (default: 0)
  --rollup-max-instances N     shards that are busy at once / 1000, rounded up (default: 2)
  --rollup-min-instances N     (default: 0)
  --increment-billing WAY      request, or instance: for all the time that an instance is there, and nothing for requests.
                               That costs less from about ten requests a second on: counters cost (default: request)
  --rollup-billing WAY         the same for Rollup, where it costs less as soon as counters are written all the time
  --reconcile-schedule CRON    in UTC (default: 7 * * * *)

  --request-logs               keep Cloud Run's log of requests that succeeded: a kilobyte each, $0.50 a GiB beyond 50
                               a month
  --no-alerts                  make no alert policies
  --lag-alert-seconds N        (default: 30)
  --reconcile-missing-after N  in seconds (default: 10800)
  --notification-channel C     projects/P/notificationChannels/N; may be repeated. Who is not named any more is not told any more
  --budget AMOUNT              tell the billing account's administrators when the project comes to half of this in a
                               month, and to all of it, such as 100 or 100USD; it stops nothing (default: no budget)

  --rate N                     increments a second of one counter that the plan's estimate is for (default: 1)
  --yes                        don't ask whether to go on
  --dry-run                    print each command of a new deployment, to be pasted into bash, and run none
  --help

Needs gcloud with its components alpha and beta, logged in with roles/owner or with the roles that docs/deploying.md
lists, and, in a checkout, Go: the functions' own code checks the settings before anything is made. It prints what it would make,
who may call that and what it costs, and asks whether to go on where there is a terminal to ask on. It takes five to ten
minutes in a new project. Rules that are there are never replaced. To replace them, take the Firebase CLI, in the folder
firestore: firebase deploy --only firestore:rules.
HELP
}

code=2 # the arguments are wrong, until they are checked
fail() {
  echo "${me##*/}: $*" >&2
  exit $code
}

has() { # line, lines
  [[ $'\n'$2$'\n' == *$'\n'"$1"$'\n'* ]]
}

whole() { # option, value, least, most
  if ! [[ $2 =~ ^[0-9]{1,6}$ ]] || ((10#$2 < $3 || 10#$2 > $4)); then fail "$1 $2: want a whole number from $3 to $4"; fi
}

like() { # option, value, pattern, what is wanted
  [[ $2 =~ $3 ]] || fail "$1 $2: want $4"
}

project='' location='' source='' region='' trigger_location='' prefix=counters runtime='' memory=512Mi
create_database=no exempt_updated_at=yes exempt_created_at=yes public=no invoker_check=yes web_apps=() invokers=() given=()
increment_concurrency=500 increment_max_instances=10 increment_min_instances=0
rollup_max_instances=2 rollup_min_instances=0 increment_billing=request rollup_billing=request reconcile_schedule='7 * * * *'
request_logs=no alerts=yes lag_alert_seconds=30 reconcile_missing_after=10800 notification_channels=()
budget='' rate='' increment_ingress=all kms_key='' database_kms_key='' docker_repository=''
dry_run=no yes=no

while (($#)); do
  flag=$1
  shift
  case $flag in
    --help | -h) usage && exit 0 ;;
    --dry-run) dry_run=yes && continue ;;
    --yes) yes=yes && continue ;;
    --create-database) create_database=yes && continue ;;
    --no-exempt-updated-at) exempt_updated_at=no && continue ;;
    --no-exempt-created-at) exempt_created_at=no && continue ;;
    --no-alerts) alerts=no && continue ;;
    --request-logs) request_logs=yes && continue ;;
    --public) public=yes && continue ;;
    --no-invoker-check) invoker_check=no && continue ;;
    --*=*) set -- "${flag#*=}" "$@" && flag=${flag%%=*} ;;
  esac
  (($#)) || fail "$flag: unknown option, or no value. See --help"
  case $flag in
    --project) project=$1 ;;
    --location) location=$1 ;;
    --region) region=$1 ;;
    --trigger-location) trigger_location=$1 ;;
    --prefix) prefix=$1 ;;
    --runtime) runtime=$1 ;;
    --memory) memory=$1 ;;
    --source) source=$1 ;;
    --web-app) web_apps+=("$1") ;;
    --invoker) invokers+=("$1") ;;
    --set) given+=("$1") ;;
    --increment-concurrency) increment_concurrency=$1 ;;
    --increment-max-instances) increment_max_instances=$1 ;;
    --increment-min-instances) increment_min_instances=$1 ;;
    --rollup-max-instances) rollup_max_instances=$1 ;;
    --rollup-min-instances) rollup_min_instances=$1 ;;
    --increment-billing) increment_billing=$1 ;;
    --rollup-billing) rollup_billing=$1 ;;
    --increment-ingress) increment_ingress=$1 ;;
    --kms-key) kms_key=$1 ;;
    --database-kms-key) database_kms_key=$1 ;;
    --docker-repository) docker_repository=$1 ;;
    --reconcile-schedule) reconcile_schedule=$1 ;;
    --lag-alert-seconds) lag_alert_seconds=$1 ;;
    --reconcile-missing-after) reconcile_missing_after=$1 ;;
    --notification-channel) notification_channels+=("$1") ;;
    --budget) budget=$1 ;;
    --rate) rate=$1 ;;
    *) fail "$flag: unknown option. See --help" ;;
  esac
  shift
done

[[ -n $project ]] || fail "--project is missing. See --help"
[[ -n $location ]] || fail "--location is missing: that of the Firestore database. See gcloud firestore databases list"
like --project "$project" '^[a-z][a-z0-9-]{4,28}[a-z0-9]$' "a project's id, which is not its name or number: see gcloud projects list"
like --location "$location" '^([a-z]+-[a-z]+[0-9]+|[a-z]+[0-9]+)$' "a location of Firestore, such as us-central1, nam5 or eur3"
like --prefix "$prefix" '^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$' "1 to 20 lower-case letters, digits and hyphens"
like --runtime "${runtime:-go126}" '^go1(2[6-9]|[3-9][0-9])$' "go126 or later: see gcloud functions runtimes list"
like --memory "$memory" '^[0-9]+(Mi|Gi)$' "a number of Mi or Gi, such as 512Mi"
like --reconcile-schedule "$reconcile_schedule" '^[^ ]+( [^ ]+){4}$' "a cron expression of five fields, such as '7 * * * *'"
for origin in ${web_apps[@]+"${web_apps[@]}"}; do
  like --web-app "$origin" '^https?://[^/,|]+$' "an origin such as https://app.example, without a path"
done
if ((${#web_apps[@]} > 0)); then
  public=yes
  for pair in ${given[@]+"${given[@]}"}; do
    [[ $pair != HOSTED=* ]] || hosted_given=yes
  done
  # first, so that what is given holds
  given=(AUTH=firebase "ALLOWED_ORIGINS=$(IFS=, && echo "${web_apps[*]}")" ${given[@]+"${given[@]}"})
  [[ -n ${hosted_given:-} ]] || given=(AUTO_CREATE=true "${given[@]}")
fi
for member in ${invokers[@]+"${invokers[@]}"}; do
  like --invoker "$member" '^(user|serviceAccount|group|domain|principal|principalSet):.+' "a member such as user:you@example.com; everybody is let in by --public"
done
like --budget "${budget:-1}" '^[1-9][0-9]{0,8}([A-Z]{3})?$' "a whole amount a month, such as 100, or 100USD in the billing account's currency"
like --rate "${rate:-1}" '^[0-9]{1,6}([.][0-9]+)?$' "increments a second, such as 100"
for channel in ${notification_channels[@]+"${notification_channels[@]}"}; do
  like --notification-channel "$channel" '^projects/[^/]+/notificationChannels/[^/]+$' "projects/P/notificationChannels/N: see gcloud beta monitoring channels list"
done
like --increment-ingress "$increment_ingress" '^(all|internal-and-gclb|internal-only)$' "all, internal-and-gclb or internal-only"
for key in $kms_key $database_kms_key; do
  like '--kms-key and --database-kms-key:' "$key" '^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$' "projects/P/locations/L/keyRings/R/cryptoKeys/K"
done
[[ -z $docker_repository ]] || like --docker-repository "$docker_repository" '^projects/[^/]+/locations/[^/]+/repositories/[^/]+$' "projects/P/locations/L/repositories/R"
[[ -z $source || -f $source || -f $source/function.go ]] || fail "--source $source: want a folder with function.go, or a zip file of such a folder"
[[ -z $kms_key || -n $docker_repository ]] || fail "--kms-key: want --docker-repository too, one of Artifact Registry that is encrypted with the same key"
whole '--increment-concurrency (less than 100 undoes group commit)' "$increment_concurrency" 100 1000
whole --increment-max-instances "$increment_max_instances" 1 1000
whole --increment-min-instances "$increment_min_instances" 0 "$increment_max_instances"
whole --rollup-max-instances "$rollup_max_instances" 1 1000
whole --rollup-min-instances "$rollup_min_instances" 0 "$rollup_max_instances"
like --increment-billing "$increment_billing" '^(request|instance)$' "request or instance"
like --rollup-billing "$rollup_billing" '^(request|instance)$' "request or instance"
mebibytes=${memory%?i}
[[ $memory == *Mi ]] || mebibytes=${mebibytes}000
((10#$mebibytes >= 256)) || fail "--memory $memory: want 256Mi at least: an instance takes $increment_concurrency requests at a time, one of Rollup 1000"
# By the instance is billed what has 512 MiB at least, and a whole CPU, as all have.
[[ "$increment_billing $rollup_billing" != *instance* ]] || ((10#$mebibytes >= 512)) ||
  fail "--memory $memory: want 512Mi at least with --increment-billing or --rollup-billing instance: Cloud Run refuses less"
whole --lag-alert-seconds "$lag_alert_seconds" 5 3600
whole --reconcile-missing-after "$reconcile_missing_after" 60 82800
((10#$reconcile_missing_after % 60 == 0)) || fail "--reconcile-missing-after $reconcile_missing_after: want whole minutes"

# The same mapping as terraform's variable multi_regions.
inside='' # where a multi-region is: some of Google's pages put its triggers there
case $location in
  nam5) region=${region:-us-central1} inside=us-central1 ;;
  nam7) region=${region:-us-central1} inside=$'us-central1\nus-east4' ;;
  eur3) region=${region:-europe-west4} inside=$'europe-west4\neurope-west1' ;;
  *) region=${region:-$location} ;;
esac
like --region "$region" '^[a-z]+-[a-z]+[0-9]+$' "a region, such as us-central1"
trigger_location=${trigger_location:-$location}
has "$trigger_location" "$location"$'\n'"$inside" ||
  fail "--trigger-location $trigger_location: want $location, the database's: Firestore hands its events out there alone"

# What the settings come to is asked of the functions' own code: whatever else read them would read
# some of them otherwise.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ -n $program ]] || command -v go >/dev/null || fail "Go is not installed, and the settings are checked by the functions' own code before anything is made: https://go.dev/dl"
ours() { # a command of this project's, and its arguments
  if [[ -n $program ]]; then "$program" "$@"; else (cd "$root" && go run ./cmd/counters "$@"); fi
}
settings=$(ours settings --check --shell -- ${given[@]+"${given[@]}"}) || fail "nothing was made: see above, and docs/settings.md"
code=1
environment=() database='' counters='' collection='' shards='' shard_fields=() collections=() watched=() indexes=() hosted=no auth='' makes_for_anybody=no reconcile_timeout=0
eval "$settings"
if [[ $auth == none && ($public == yes || $invoker_check == no) ]]; then
  echo "${me##*/}: warning: with AUTH=none anybody on the internet can count" >&2
  [[ $makes_for_anybody == no ]] ||
    echo "${me##*/}: warning: with AUTO_CREATE=true too, they can make counters without bound; set it to a number of new counters a minute and caller" >&2
fi
scratch=$(mktemp -d)
if [[ $dry_run == yes ]]; then # what is printed reads it, now or later
  trap 'echo "${me##*/}: this makes a new deployment, and reads files in $scratch, which stay. Google takes minutes to know what is new: run what fails by that again" >&2' EXIT
else
  trap 'rm -rf "$scratch"' EXIT
fi
[[ $dry_run == yes ]] || command -v gcloud >/dev/null || fail "gcloud is not installed: https://cloud.google.com/sdk/docs/install"
source=${source:-$root}
if [[ -f $source ]]; then # gcloud wants a folder
  unzip -q "$source" -d "$scratch/source" || fail "--source $source: can't unpack it with unzip"
  source=$scratch/source
  [[ -f $source/function.go ]] || fail "--source: there is no function.go in it"
fi

export CLOUDSDK_CORE_DISABLE_PROMPTS=1 # a prompt would wait unseen

# What an error says that goes away by itself: something new is not known everywhere yet. Empty when
# it doesn't.
passing() { # file with what gcloud said
  case $(tr '\n' ' ' <"$1") in
    *SERVICE_DISABLED* | *"has not been used in project"* | *"it is disabled. Enable it by visiting"*) echo "an API that was just turned on" ;;
    *"Eventarc Service Agent"*) echo "the role of Eventarc's agent" ;;
    *"missing permission on the build service account"*) echo "the roles of the build's account" ;;
    *ervice\ account*does\ not\ exist*) echo "a new service account" ;;
    *"concurrent policy changes"*) echo "another change of the same policy" ;;
    *UNAVAILABLE* | *"Please try again in 30 seconds"*) echo "the platform, which is busy" ;;
  esac
}

# Runs a command, for up to five minutes as long as what it says is passing.
patiently() {
  local try why
  [[ $dry_run == no ]] || { run "$@" && return; }
  for ((try = 1; ; try++)); do
    if { "$@" 2>&1 >&3 3>&- | tee "$scratch/errors" >&2 3>&-; } 3>&1; then return; fi
    why=$(passing "$scratch/errors")
    [[ -n $why ]] && ((try < 30)) || return 1
    echo "${me##*/}: waiting for $why; again in 10 s, for $((5 - try / 6)) minutes at most" >&2
    sleep 10
  done
}

run() {
  local words
  if [[ $dry_run == yes ]]; then
    printf -v words '%q ' "$@"
    sed -E 's/@@([a-z_]+)@@/"$\1"/g' <<<"$words"
  else
    "$@"
  fi
}

# In a dry run, what is known later is a variable of what is printed: it is asked for there.
later() { # variable, how to ask for it
  sed -E 's/@@([a-z_]+)@@/"$\1"/g' <<<"$1=\$($2)"
  printf -v "$1" '@@%s@@' "$1"
}

# What a question answers; nothing in a dry run, which asks nothing.
ask() {
  [[ $dry_run == yes ]] || patiently "$@"
}

account() { echo "$prefix-$1@$project.iam.gserviceaccount.com"; }

grant() { # account role [condition's expression, title, description]
  local condition=None
  ! has "$2|serviceAccount:$1|${3:-}" "$grants" || return 0
  [[ -z ${3:-} ]] || condition="expression=$3,title=$prefix-$4,description=$5"
  patiently gcloud projects add-iam-policy-binding "$project" --member="serviceAccount:$1" --role="$2" --condition="$condition" --format=none
}

may_call() { # function: prints who may
  ask gcloud run services get-iam-policy "$1" --project="$project" --region="$region" --flatten='bindings[].members' \
    --format='value[separator="|"](bindings.role,bindings.members)' | sed -n 's/^roles\/run.invoker|//p'
}

allow() { # function, who may call it, members…
  local function=$1 callers=$2 member
  shift 2
  for member; do
    has "$member" "$callers" || patiently gcloud run services add-iam-policy-binding "$function" --project="$project" --region="$region" \
      --member="$member" --role=roles/run.invoker --format=none
  done
}

# Whether a function is billed by the instance: its service has a CPU also without a request.
by_instance() {
  local throttled
  throttled=$(ask gcloud run services describe "$1" --project="$project" --region="$region" \
    --format='value(spec.template.metadata.annotations."run.googleapis.com/cpu-throttling")')
  [[ $throttled == [Ff]alse ]]
}

bill() { # name, no- for by the instance
  patiently gcloud run services update "$1" --project="$project" --region="$region" "--${2:-}cpu-throttling" --format=none
}

billed=() # functions that could not be billed as asked
deploy() { # name entry-point account billing flags…
  local name=$1 entry_point=$2 runs_as=$3 billing=$4 new=()
  shift 4
  # It is taken back first: what is billed by the instance may not have less than 512 MiB. A
  # deployment keeps it.
  if [[ $billing == request ]] && has "$name" "$functions" && by_instance "$name"; then bill "$name" || fail "$name is billed by the instance, and that can't be taken back: see above"; fi
  # On a function that is there already this would take allUsers away, until it is given again at
  # the end.
  has "$name" "$functions" || new=(--no-allow-unauthenticated)
  [[ -n $kms_key ]] || ! has "$name" "$functions" || new=(--clear-kms-key) # or it keeps the one that it had
  patiently gcloud functions deploy "$name" --gen2 --project="$project" --region="$region" --runtime="$runtime" \
    --source="$source" --entry-point="$entry_point" --run-service-account="$runs_as" \
    --build-service-account="projects/$project/serviceAccounts/$(account build)" \
    ${kms_key:+--kms-key="$kms_key"} --docker-repository="$docker_repository" \
    --cpu=1 --memory="$memory" --update-labels="counters-source=$version" --set-env-vars="^|^$variables" ${new[@]+"${new[@]}"} --format=none "$@"
  [[ $billing != instance ]] || by_instance "$name" || bill "$name" no- || billed+=("$name")
}

### The project as it is. What can't be deployed ends here, before anything is made.

there='' # the database, where it is there
database_line='name.basename(),locationId,type,databaseEdition'
look_at_database() {
  local lies type edition
  there=$(ask gcloud firestore databases list --project="$project" --format="value[separator='|']($database_line)" | awk -F'|' -v id="$database" '$1 == id')
  if [[ -z $there ]]; then
    [[ $create_database == yes || $dry_run == yes ]] || fail "there is no database $database in $project. Add --create-database, or name another with --set DATABASE=ID"
    return 0
  fi
  IFS='|' read -r _ lies type edition <<<"$there"
  [[ $lies == "$location" ]] || fail "the database $database is in $lies: say --location $lies"
  [[ $type == FIRESTORE_NATIVE ]] || fail "the database $database is in Datastore mode. Name another with --set DATABASE=ID"
  local indexed="what FIELDS sums up and compares"
  ((${#shard_fields[@]} == 0)) || indexed="each of ${shard_fields[*]/#/$shards.}"
  [[ $edition != ENTERPRISE ]] || echo "${me##*/}: warning: the database $database is of the Enterprise edition, which has no automatic indexes: create one on $indexed and expect other costs than the documented ones" >&2
}

# What there is to be built for: known only where the API is on.
look_at_runtimes() {
  local known
  if [[ $dry_run == yes ]]; then
    [[ -n $runtime ]] || later runtime "gcloud functions runtimes list --region=$region --project=$project --filter=stage=GA --format='value(name)' | grep -E '^go1[0-9]{2}\$' | sort | tail -1"
    return
  fi
  known=$(ask gcloud functions runtimes list --region="$region" --project="$project" --filter=stage=GA --format='value(name)' | grep -E '^go1[0-9]{2}$' | sort || true)
  if [[ -n $runtime && -n $known ]]; then
    has "$runtime" "$known" || fail "--runtime $runtime: want one that $region has, ${known//$'\n'/ or }"
  fi
  runtime=${runtime:-${known##*$'\n'}}
  [[ -n $runtime ]] || fail "can't read which runtimes $region has. Name one with --runtime; see gcloud functions runtimes list --region $region"
}

apis=$(ask gcloud services list --enabled --project="$project" --format='value(config.name)') ||
  fail "can't read project $project. Is the id right, and are you logged in (gcloud auth login)?"
if has firestore.googleapis.com "$apis"; then
  look_at_database
elif [[ $create_database == no && $dry_run == no ]]; then
  fail "Firestore is turned off in $project, and so there is no database. Add --create-database, or turn it on: gcloud services enable firestore.googleapis.com --project=$project"
fi

! has cloudfunctions.googleapis.com "$apis" || look_at_runtimes

### The plan

setting() { printf '%s\n' "${environment[@]}" | sed -n "s/^$1=//p"; } # as the functions will have it

plan() {
  local member callers='' database_is='is there, and stays as it is' costs
  local beside="6 service accounts, a repository of images, a trigger, a Scheduler job ($reconcile_schedule, UTC), metrics, a dashboard"
  for member in ${invokers[@]+"${invokers[@]}"}; do callers+=${callers:+, }$member; done
  [[ $public == no && $invoker_check == yes ]] || callers+="${callers:+, }the whole internet (AUTH=$auth)"
  ((${#web_apps[@]} == 0)) || callers+="; web pages: $(setting ALLOWED_ORIGINS) (--web-app)"
  callers=${callers:-"nobody new: --invoker user:YOU@example.com lets you in, --web-app https://YOUR.APP its users, --public everybody"}
  [[ $dry_run == no ]] || database_is='has to be there, and stays as it is' # nobody was asked
  [[ -n $there || $create_database == no ]] || database_is='is made, protected against deletion'
  [[ $alerts == no ]] || beside+=', alerts'
  ((${#web_apps[@]} == 0)) || [[ $hosted == yes ]] || beside+=', security rules where there are none'
  [[ -z $budget ]] || beside+=", a budget of $budget a month"
  costs=$(ours estimate --rate "${rate:-1}" --location "$location" --memory "$memory" \
    --increment-billing "$increment_billing" --rollup-billing "$rollup_billing" \
    --increment-min-instances "$increment_min_instances" --increment-max-instances "$increment_max_instances" \
    --rollup-min-instances "$rollup_min_instances" --rollup-max-instances "$rollup_max_instances" -- ${given[@]+"${given[@]}"} 2>&1) ||
    costs+=$'\n'"So there is no estimate."
  cat <<PLAN
In project $project this makes, or brings up to date:

  counters   $counters
  database   $database in $location, which $database_is
  functions  $prefix-increment (at most $increment_max_instances instances), $prefix-rollup ($rollup_max_instances), $prefix-reconcile (1), in $region
  beside     $beside
  may call   $callers

$costs

PLAN
}

plan >&2
if [[ $yes == no && $dry_run == no && -t 0 ]]; then
  read -r -p "Go on? [y/N] " answer || true
  [[ ${answer:-} == [yY]* ]] || fail "nothing was made"
fi

# The steps, and how long it has been.
step=0 steps=10 began=$SECONDS
next() { # what comes
  step=$((step + 1))
  [[ $dry_run == yes ]] || echo "[$step/$steps, $(took)] $*" >&2
}
took() { printf '%d:%02d' $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)); }

### The project

next "APIs of $project"
run gcloud services enable --project="$project" ${web_apps:+firebaserules.googleapis.com} ${budget:+billingbudgets.googleapis.com cloudbilling.googleapis.com} artifactregistry.googleapis.com cloudbuild.googleapis.com \
  cloudfunctions.googleapis.com cloudresourcemanager.googleapis.com cloudscheduler.googleapis.com \
  eventarc.googleapis.com firestore.googleapis.com iam.googleapis.com logging.googleapis.com \
  monitoring.googleapis.com pubsub.googleapis.com run.googleapis.com storage.googleapis.com ||
  fail "can't turn APIs on in project $project: see above"

has cloudfunctions.googleapis.com "$apis" || look_at_runtimes

number=$(ask gcloud projects describe "$project" --format='value(projectNumber)') || fail "can't read the number of project $project: see above"
[[ $dry_run == no ]] || later number "gcloud projects describe $project --format='value(projectNumber)'"
printf -v variables '%s|' "${environment[@]}"
variables="GOOGLE_CLOUD_PROJECT=$project|${variables}PROJECT_NUMBER=$number"

next "Service accounts"

### The accounts, and what they may do. They come first: what is new takes a while to be known
### everywhere.

# Before the trigger, or that fails with "Permission denied while using the Eventarc Service Agent".
grants=$(ask gcloud projects get-iam-policy "$project" --flatten='bindings[].members' \
  --format='value[separator="|"](bindings.role,bindings.members,bindings.condition.expression)')
agent=service-$number@gcp-sa-eventarc.iam.gserviceaccount.com
if ! has "roles/eventarc.serviceAgent|serviceAccount:$agent|" "$grants"; then
  patiently gcloud beta services identity create --project="$project" --service=eventarc.googleapis.com
  grant "$agent" roles/eventarc.serviceAgent
fi

accounts=$(ask gcloud iam service-accounts list --project="$project" --format='value(email)')
for name in increment rollup reconcile eventarc scheduler build; do
  has "$(account $name)" "$accounts" ||
    patiently gcloud iam service-accounts create "$prefix-$name" --project="$project" --display-name="$prefix-$name"
done

### The database

next "The database, its TTL policy and its indexes"
has firestore.googleapis.com "$apis" || look_at_database
if [[ -z $there && $create_database == yes ]]; then
  patiently gcloud firestore databases create --project="$project" --database="$database" --location="$location" --delete-protection \
    ${database_kms_key:+--kms-key-name="$database_kms_key"} --format=none
fi

patiently gcloud firestore fields ttls update expire_at --project="$project" --database="$database" --collection-group=counter_requests --enable-ttl --format=none
exempted=$(ask gcloud firestore indexes fields list --project="$project" --database="$database" --format='value[separator="."](name.segment(5),name.segment(7),indexConfig.indexes.len())')
exempt() { # collection group, field
  has "$1.$2.0" "$exempted" || patiently gcloud firestore indexes fields update "$2" --project="$project" --database="$database" \
    --collection-group="$1" --disable-indexes --format=none
}
exempt counter_requests expire_at
for map in states answers ops; do # the ledger's
  exempt counter_rollup $map
done
# Indexes that the queries of counted collections need, and that Firestore doesn't make by itself.
# They are built in the background; a query that comes before says so in the log, and reconcile asks
# again.
composite=''
((${#indexes[@]} == 0)) || composite=$(ask gcloud firestore indexes composite list --project="$project" --database="$database" \
  --format='value[separator=" "](name.segment(5),queryScope,fields.extract(fieldPath).flatten(separator=" "))' | sed 's/ __name__$//')
index() { # collection group, scope, fields…
  local group=$1 scope=$2 field configs=()
  shift 2
  if (($# == 1)); then # one field of a group, beside the indexes that every field has in its collection: gcloud has no flag for it
    has "$group.$1.4" "$exempted" || cat >&2 <<EOF
${me##*/}: to count all collections $group by their field $1, its index is needed in the collection group, which gcloud can't make:
curl -X PATCH "https://firestore.googleapis.com/v1/projects/$project/databases/$database/collectionGroups/$group/fields/$1?updateMask=indexConfig" \\
  -H "Authorization: Bearer \$(gcloud auth print-access-token)" -H 'Content-Type: application/json' -d '{"indexConfig":{"indexes":[
  {"queryScope":"COLLECTION_GROUP","fields":[{"fieldPath":"$1","order":"ASCENDING"}]},{"queryScope":"COLLECTION","fields":[{"fieldPath":"$1","order":"ASCENDING"}]},
  {"queryScope":"COLLECTION","fields":[{"fieldPath":"$1","order":"DESCENDING"}]},{"queryScope":"COLLECTION","fields":[{"fieldPath":"$1","arrayConfig":"CONTAINS"}]}]}}'
EOF
    return
  fi
  for field; do configs+=(--field-config="field-path=$field,order=ascending"); done
  has "$group $scope $*" "$composite" || patiently gcloud firestore indexes composite create --project="$project" --database="$database" --collection-group="$group" \
    --query-scope="$(tr '[:upper:]_' '[:lower:]-' <<<"$scope")" "${configs[@]}" --async --format=none
}
for words in ${indexes[@]+"${indexes[@]}"}; do
  # shellcheck disable=SC2086 # the fields of one index
  index $words
done
deployed=$(ask gcloud functions list --v2 --project="$project" --regions="$region" --format='value[separator="|"](name.basename(),serviceConfig.environmentVariables.HOSTED)')
functions=$(cut -d'|' -f1 <<<"$deployed")
turn_on() { # collection group, field: the command that gives it back its index
  command=(gcloud firestore indexes fields update "$2" --project="$project" --database="$database" --collection-group="$1" --clear-exemption --format=none)
}
give_back() { # field of the app's own documents
  local command
  has "$collection.$1.0" "$exempted" || return 0
  turn_on "$collection" "$1"
  if grep "^$prefix-increment|" <<<"$deployed" | grep -qvx "$prefix-increment|true"; then
    echo "${me##*/}: the documents are the app's now, and it has the index of $collection.$1 back, which was turned off for counters" >&2
    patiently "${command[@]}"
  elif ! has "$prefix-increment" "$functions"; then
    echo "${me##*/}: $collection.$1 has no index. If a deployment with other settings turned it off, turn it on: $(printf '%q ' "${command[@]}")" >&2
  fi
}
keep_index() { # collection group, field: an earlier deployment may have turned it off, for others as well
  local command
  has "$1.$2.0" "$exempted" || return 0
  turn_on "$1" "$2"
  echo "${me##*/}: $1.$2 has no index: it was turned off before. To turn it on: $(printf '%q ' "${command[@]}")" >&2
}
if [[ $hosted == yes ]]; then # the documents are the app's: only our map is ours, with updated_at in it
  if [[ $exempt_updated_at == yes ]]; then exempt "$collection" counter_rollup; else keep_index "$collection" counter_rollup; fi
  give_back updated_at
  give_back created_at
else
  if [[ $exempt_updated_at == yes ]]; then exempt "$collection" updated_at; else keep_index "$collection" updated_at; fi
  if [[ $exempt_created_at == yes ]]; then exempt "$collection" created_at; else keep_index "$collection" created_at; fi
fi

next "Roles, and a repository of images"
for name in increment rollup reconcile; do
  grant "$(account $name)" roles/datastore.user "resource.name == \"projects/$project/databases/$database\"" database "The counters' database only"
done
grant "$(account build)" roles/logging.logWriter
grant "$(account build)" roles/storage.objectViewer 'resource.name.startsWith("projects/_/buckets/gcf-v2-sources-")' source "The functions' sources only"
grant "$(account eventarc)" roles/eventarc.eventReceiver

# The images: in a repository of their own, so that the build writes no other image of the project.
if [[ -z $docker_repository ]]; then
  docker_repository=projects/$project/locations/$region/repositories/$prefix-functions
  repositories=$(ask gcloud artifacts repositories list --project="$project" --location="$region" --format='value(name.basename())')
  has "$prefix-functions" "$repositories" || patiently gcloud artifacts repositories create "$prefix-functions" --project="$project" --location="$region" \
    --repository-format=docker --description="Images of $prefix-increment, $prefix-rollup and $prefix-reconcile." --format=none
fi
writers=$(ask gcloud artifacts repositories get-iam-policy "$docker_repository" --project="$project" --flatten='bindings[].members' \
  --format='value[separator="|"](bindings.role,bindings.members)')
has "roles/artifactregistry.writer|serviceAccount:$(account build)" "$writers" ||
  patiently gcloud artifacts repositories add-iam-policy-binding "$docker_repository" --project="$project" \
    --member="serviceAccount:$(account build)" --role=roles/artifactregistry.writer --format=none

### Rules for web pages, where the database has none: those of an app are never replaced. gcloud has
### no command for it.

rules_api() { # method, path, file with a body: prints what is answered, and nothing where there is no such thing
  local status
  status=$(curl -sS -m 60 -X "$1" -o "$scratch/answer" -w '%{http_code}' -H @- <<<"Authorization: Bearer $(gcloud auth print-access-token)" \
    -H "X-Goog-User-Project: $project" -H 'Content-Type: application/json' ${3:+--data "@$3"} \
    "${CLOUDSDK_API_ENDPOINT_OVERRIDES_FIREBASERULES:-https://firebaserules.googleapis.com/}v1/projects/$project/$2") || return 1
  case $status in
    2*) cat "$scratch/answer" ;;
    404) ;;
    *) cat "$scratch/answer" >&2 && return 1 ;;
  esac
}

values_of() { tr ',{}' '\n' | sed -n 's/.*"'"$1"'": *"\([^"]*\)".*/\1/p'; } # a key of JSON: one a line

# The file is written for the default path and shards, as terraform's rules.tf has it.
write_ruleset() { # writes what is released, and its name into hash
  local path_of=${counters//\{/\$(} text
  text=$(sed -e "s|match /counters/{counter}|match /$counters|" -e "s|documents/counters/\$(counter)|documents/${path_of//\}/)}|" \
    -e "s|match /shards/{|match /$shards/{|" -e "s|/shards/\$(|/$shards/\$(|" "$root/firestore/firestore.rules")
  hash=$({ sha256sum 2>/dev/null || shasum -a 256; } <<<"$text" | cut -c1-16)
  printf '{"source": {"files": [{"name": "counters-%s.rules", "content": "%s"}]}}' "$hash" \
    "$(sed 's/\\/\\\\/g; s/"/\\"/g' <<<"$text" | awk '{ printf "%s\\n", $0 }')" >"$scratch/ruleset"
}

release_rules() {
  local release=$1 hash there ruleset verb=POST path=releases
  write_ruleset
  there=$(patiently rules_api GET "releases/$release" | values_of rulesetName) || return 1
  if [[ -n $there ]]; then
    there=$(patiently rules_api GET "${there#"projects/$project/"}" | values_of name) || return 1
    [[ $there != *"counters-$hash.rules"* ]] || return 0
    if [[ $there != *counters-*.rules* ]]; then
      cat >&2 <<LEFT
${me##*/}: the database has security rules of its own, and they were left alone. For totals that change on the page by themselves, by the
Firebase SDK, put this into them, and see that no wider rule lets clients write there:
    match /$counters {
      allow get: if true;
      match /{below=**} { allow read, write: if false; }
    }
LEFT
      return 0
    fi
    verb=PATCH path=releases/$release
  fi
  ruleset=$(patiently rules_api POST rulesets "$scratch/ruleset" | values_of name | grep '^projects/') || return 1
  ruleset='"name": "projects/'$project/releases/$release'", "rulesetName": "'$ruleset'"'
  [[ $verb == POST ]] || ruleset='"release": {'$ruleset'}'
  echo "{$ruleset}" >"$scratch/release"
  patiently rules_api $verb "$path" "$scratch/release" >/dev/null
}

# The same as commands, where the database has no rules.
print_rules() { # release
  local hash
  write_ruleset
  cat <<PASTE
rules() { curl -sSf -H "Authorization: Bearer \$(gcloud auth print-access-token)" -H 'X-Goog-User-Project: $project' -H 'Content-Type: application/json' "https://firebaserules.googleapis.com/v1/projects/$project/\$@"; }
rules releases/$1 >/dev/null 2>&1 || { ruleset=\$(rules rulesets --data @$(printf %q "$scratch/ruleset") | tr ',{}' '\n' | sed -n 's|.*"name": *"\(projects/[^"]*\)".*|\1|p') && rules releases --data '{"name": "projects/$project/releases/$1", "rulesetName": "'"\$ruleset"'"}'; }
PASTE
}

if ((${#web_apps[@]} > 0)) && [[ $hosted == no ]]; then
  release=cloud.firestore
  [[ $database == '(default)' ]] || release+=/$database
  if [[ $dry_run == yes ]]; then
    print_rules "$release"
  else
    command -v curl >/dev/null || fail "curl is not installed, and releases the rules"
    release_rules "$release" || fail "can't release the rules: see above. That takes roles/firebaserules.admin"
  fi
fi

### The functions. Rollup comes last: its trigger needs the grants above, which spread while the
### others are built.

# What is deployed, by the contents of its files: counters doctor tells by it that a deployment has not
# come to all functions.
if [[ $dry_run == yes ]]; then
  later version "$(printf 'cd %q' "$source") && gcloud meta list-files-for-upload . --project=$project | LC_ALL=C sort | while IFS= read -r file; do echo \"\$file\" && cat \"\$file\"; done | { sha256sum 2>/dev/null || shasum -a 256; } | cut -c1-16"
else
  version=$(cd "$source" && gcloud meta list-files-for-upload . --project="$project" | LC_ALL=C sort | while IFS= read -r file; do
    echo "$file" && cat "$file"
  done | { sha256sum 2>/dev/null || shasum -a 256; } | cut -c1-16)
fi

next "$prefix-increment: a build of about two minutes"
deploy "$prefix-increment" Increment "$(account increment)" "$increment_billing" --trigger-http --timeout=75s --ingress-settings="$increment_ingress" \
  --concurrency="$increment_concurrency" --max-instances="$increment_max_instances" --min-instances="$increment_min_instances"

next "$prefix-reconcile: another"
deploy "$prefix-reconcile" Reconcile "$(account reconcile)" any --trigger-http --timeout="${reconcile_timeout}s" --ingress-settings=internal-only \
  --concurrency=100 --max-instances=1 --min-instances=0

next "$prefix-rollup: another, and its trigger"
deploy "$prefix-rollup" Rollup "$(account rollup)" "$rollup_billing" --timeout=60s --ingress-settings=internal-only \
  --concurrency=1000 --max-instances="$rollup_max_instances" --min-instances="$rollup_min_instances" \
  --trigger-location="$trigger_location" --trigger-service-account="$(account eventarc)" --retry \
  --trigger-event-filters=type=google.cloud.firestore.document.v1.written \
  --trigger-event-filters="database=$database" \
  --trigger-event-filters-path-pattern="document=$counters/$shards/{shard}"

# What each function is called at, and the trigger of its own, if it has one.
made=$(ask gcloud functions list --v2 --project="$project" --regions="$region" --format='value[separator="|"](name.basename(),serviceConfig.uri,eventTrigger.trigger)')
uri() { awk -F'|' -v name="$1" '$1 == name { print $2 }' <<<"$made"; }

# How a trigger's events wait, which gcloud has no flag for where the trigger is made. By default
# Pub/Sub deletes a subscription through which nothing has come for a month.
subscribe() { # trigger, flags…
  local trigger=$1 subscription
  shift
  subscription=$(ask gcloud eventarc triggers describe "$trigger" --project="$project" --location="$trigger_location" --format='value(transport.pubsub.subscription)')
  [[ $dry_run == no ]] || later subscription "gcloud eventarc triggers describe $trigger --project=$project --location=$trigger_location --format='value(transport.pubsub.subscription)'"
  patiently gcloud pubsub subscriptions update "$subscription" --project="$project" --expiration-period=never --format=none "$@"
}

callers=$(may_call "$prefix-rollup")
allow "$prefix-rollup" "$callers" "serviceAccount:$(account eventarc)"
trigger=$(awk -F'|' -v name="$prefix-rollup" '$1 == name { print $3 }' <<<"$made")
[[ -n $trigger || $dry_run == yes ]] || fail "can't read the trigger of $prefix-rollup; run this again"
[[ $dry_run == no ]] || later trigger "gcloud functions describe $prefix-rollup --gen2 --project=$project --region=$region --format='value(eventTrigger.trigger)'"
subscribe "$trigger"

# A function has one trigger of its own: for each collection whose documents are counted there is
# another, to the same service. Its name is made of all that it is for, so that nothing about it
# ever changes.
triggers=$(ask gcloud eventarc triggers list --project="$project" --location="$trigger_location" --format='value(name.basename())')
watching=''
for ((i = 0; i < ${#collections[@]}; i++)); do
  hash=$(printf '%s' "$region/$database/$counters/${collections[i]}" | { sha256sum 2>/dev/null || shasum -a 256; } | cut -c1-8)
  name=$prefix-watch-$hash
  watching+=$name$'\n'
  has "$name" "$triggers" || patiently gcloud eventarc triggers create "$name" --project="$project" --location="$trigger_location" \
    --destination-run-service="$prefix-rollup" --destination-run-region="$region" --service-account="$(account eventarc)" \
    --event-data-content-type=application/protobuf --event-filters=type=google.cloud.firestore.document.v1.written \
    --event-filters="database=$database" --event-filters-path-pattern="document=${watched[i]}" --format=none
  # An event waits until counting again is worth its price: by default Pub/Sub would hang up after
  # 10 s, and send it again.
  subscribe "$name" --ack-deadline=70
done
for name in $triggers; do
  if [[ $name =~ ^$prefix-watch-[0-9a-f]{8}$ ]] && ! has "$name" "$watching"; then
    patiently gcloud eventarc triggers delete "$name" --project="$project" --location="$trigger_location"
  fi
done

callers=$(may_call "$prefix-reconcile")
allow "$prefix-reconcile" "$callers" "serviceAccount:$(account scheduler)"

### Scheduler

next "The Scheduler's job"
reconcile_uri=$(uri "$prefix-reconcile")
[[ -n $reconcile_uri || $dry_run == yes ]] || fail "can't read the address of $prefix-reconcile; run this again"
[[ $dry_run == no ]] || later reconcile_uri "gcloud functions describe $prefix-reconcile --gen2 --project=$project --region=$region --format='value(serviceConfig.uri)'"

jobs=$(ask gcloud scheduler jobs list --project="$project" --location="$region" --format='value(name.basename())')
verb=create
! has "$prefix-reconcile" "$jobs" || verb=update
patiently gcloud scheduler jobs $verb http "$prefix-reconcile" --project="$project" --location="$region" \
  --schedule="$reconcile_schedule" --time-zone=Etc/UTC --uri="$reconcile_uri" --http-method=POST \
  --oidc-service-account-email="$(account scheduler)" --oidc-token-audience="$reconcile_uri" \
  --attempt-deadline="${reconcile_timeout}s" --max-retry-attempts=1 --format=none

### Metrics, alerts, dashboard: from the same files as terraform's

next "Metrics, alerts and a dashboard"
render() { # file: prints where its rendered copy is
  local out=${1#"$root"/terraform/monitoring/}
  out=$scratch/${out//\//-}
  # shellcheck disable=SC2016 # the placeholders are the files', not the shell's
  sed -e 's/${prefix}/'"$prefix"'/g' -e 's/${prom_prefix}/'"${prefix//-/_}"'/g' \
    -e 's/${lag_alert_ms}/'"$((lag_alert_seconds * 1000))"'/g' \
    -e 's/${reconcile_missing_after}/'"${reconcile_missing_after}s"'/g' "$1" >"$out"
  echo "$out"
}

value() { sed -n 's/^  "'"$2"'": "\(.*\)",$/\1/p' "$1"; } # file, top-level key

metrics=$(ask gcloud logging metrics list --project="$project" --format='value(name)')
for file in "$root"/terraform/monitoring/metrics/*.json; do
  metric=$(render "$file")
  name=$(value "$metric" name)
  verb=create
  ! has "$name" "$metrics" || verb=update
  patiently gcloud logging metrics $verb "$name" --project="$project" --config-from-file="$metric" --format=none
done

# Cloud Run's log of each request costs nearly what all else does. Metrics and alerts don't need it.
exclusion=$(render "$root/terraform/monitoring/request_logs.json")
name=$(value "$exclusion" name)
filter=$(sed -n 's/^  "filter": "\(.*\)"$/\1/p' "$exclusion" | sed 's/\\"/"/g')
exclusions=$(ask gcloud logging sinks describe _Default --project="$project" --flatten='exclusions[]' --format='value(exclusions.name)')
if [[ $request_logs == no ]]; then
  verb=add
  ! has "$name" "$exclusions" || verb=update
  patiently gcloud logging sinks update _Default --project="$project" --$verb-exclusion="name=$name,description=$(value "$exclusion" description),filter=$filter" --format=none
elif has "$name" "$exclusions"; then
  patiently gcloud logging sinks update _Default --project="$project" --remove-exclusions="$name" --format=none
fi

# The lists are searched here: with --filter and --limit gcloud applies the limit first.
named() { # displayed name, lines of name|displayed name…: prints the lines' names
  awk -F'|' -v want="$1" '$2 == want { print $1 }' <<<"$2"
}

if [[ $alerts == yes ]]; then
  policies=$(ask gcloud alpha monitoring policies list --project="$project" --format='value[separator="|"](name,displayName,notificationChannels.list(separator=" "))')
  channels=$(IFS=, && echo "${notification_channels[*]-}")
  were_sent='' # to which channels
  for file in "$root"/terraform/monitoring/alerts/*.json; do
    policy=$(render "$file")
    name=$(value "$policy" displayName)
    ids=$(named "$name" "$policies")
    id=${ids%%$'\n'*}
    if [[ -n $id ]]; then # the file replaces the policy, with the channels that it had
      were_sent+=$(awk -F'|' -v id="$id" '$1 == id { print " " $3 }' <<<"$policies")
      patiently gcloud alpha monitoring policies update "$id" --project="$project" --policy-from-file="$policy" \
        ${channels:+--set-notification-channels="$channels"} --format=none
    else
      patiently gcloud alpha monitoring policies create --project="$project" --policy-from-file="$policy" \
        ${channels:+--notification-channels="$channels"} --format=none
    fi
    for more in $ids; do # made by an attempt whose answer was lost
      [[ $more == "$id" ]] || patiently gcloud alpha monitoring policies delete "$more" --project="$project"
    done
  done
  # A project has an id and a number, and the channel's is enough.
  for channel in $(tr ' ' '\n' <<<"$were_sent" | sort -u); do
    [[ "$channels," == *"/${channel##*/},"* ]] || echo "${me##*/}: alerts were sent to $channel, which was not named, and are no more. To have them sent there: --notification-channel $channel" >&2
  done
fi

# A budget is the billing account's. Who may not make one has all else.
make_budget() {
  local billing budgets name="$prefix in $project" id
  billing=$(ask gcloud billing projects describe "$project" --format='value(billingAccountName.basename())') || return 1
  [[ $dry_run == no ]] || later billing "gcloud billing projects describe $project --format='value(billingAccountName.basename())'"
  budgets=$(ask gcloud billing budgets list --billing-account="$billing" --billing-project="$project" --format='value[separator="|"](name,displayName)') || return 1
  id=$(named "$name" "$budgets" | head -1)
  if [[ -n $id ]]; then
    patiently gcloud billing budgets update "$id" --billing-project="$project" --budget-amount="$budget" --format=none
  else
    patiently gcloud billing budgets create --billing-account="$billing" --billing-project="$project" --display-name="$name" --budget-amount="$budget" \
      --filter-projects="projects/$project" --threshold-rule=percent=0.5 --threshold-rule=percent=1.0 --format=none
  fi
}
budget_made=yes
[[ -z $budget ]] || make_budget || budget_made=no

dashboard=$(render "$root/terraform/monitoring/dashboard.json")
list_dashboards() {
  ask gcloud monitoring dashboards list --project="$project" --format='value[separator="|"](name,displayName,etag)'
}
dashboards=$(list_dashboards)
id=$(named "$prefix" "$dashboards" | head -1)
if [[ -n $id ]]; then
  etag=$(awk -F'|' -v id="$id" '$1 == id { print $3 }' <<<"$dashboards")
  sed -i.bak '1s/{/{ "etag": "'"$etag"'",/' "$dashboard" # an update is refused without it
  patiently gcloud monitoring dashboards update "$id" --project="$project" --config-from-file="$dashboard" --format=none
else
  patiently gcloud monitoring dashboards create --project="$project" --config-from-file="$dashboard" --format=none
  id=$(named "$prefix" "$(list_dashboards)" | head -1)
fi

### Who may call Increment comes last: an organisation's policy may refuse it, and all else is
### there by then.

next "Who may call $prefix-increment"
[[ $public == no ]] || invokers+=(allUsers)
callers=$(may_call "$prefix-increment")
refused=() may=()
unchecked=$(ask gcloud run services describe "$prefix-increment" --project="$project" --region="$region" \
  --format='value(metadata.annotations."run.googleapis.com/invoker-iam-disabled")')
for member in ${invokers[@]+"${invokers[@]}"}; do
  # A web app is let in by either of them, and where one is there, that will do.
  [[ $member != allUsers || $unchecked != [Tt]rue || ${#web_apps[@]} == 0 ]] || { invoker_check=no && continue; }
  if allow "$prefix-increment" "$callers" "$member"; then
    may+=("$member")
  elif [[ $member == allUsers && ${#web_apps[@]} != 0 ]]; then
    echo "${me##*/}: allUsers was refused, as in organisations that share with their own domains only; so Cloud Run doesn't check who calls" >&2
    invoker_check=no
  else
    refused+=("$member")
  fi
done
if [[ $invoker_check == no && $unchecked != [Tt]rue ]]; then
  patiently gcloud run services update "$prefix-increment" --project="$project" --region="$region" --no-invoker-iam-check --format=none && unchecked=true || refused+=(--no-invoker-check)
fi

wanted=$(printf '%s\n' ${invokers[@]+"${invokers[@]}"})
while read -r member; do
  [[ -z $member ]] || has "$member" "$wanted" || may+=("$member")
  [[ -z $member ]] || has "$member" "$wanted" || cat >&2 <<LEFT
${me##*/}: $member may call $prefix-increment too, and was not named. To take that back:
  gcloud run services remove-iam-policy-binding $prefix-increment --project=$project --region=$region --member=$(printf %q "$member") --role=roles/run.invoker
LEFT
done <<<"$callers"
if [[ $invoker_check == yes && $unchecked == [Tt]rue ]]; then
  cat >&2 <<LEFT
${me##*/}: nobody checks who calls $prefix-increment, and --no-invoker-check was not given. To have Cloud Run check it again:
  gcloud run services update $prefix-increment --project=$project --region=$region --invoker-iam-check
LEFT
fi

# shellcheck disable=SC2016 # it is typed into another shell
credentials='--token "$(gcloud auth print-identity-token)"' where=''
case $auth in # which Google's own token is not
  firebase) credentials='--token TOKEN' where='TOKEN is the ID token of a user who signed in with Firebase' ;;
  appcheck) credentials="--header 'X-Firebase-AppCheck: TOKEN'" where='TOKEN is an App Check token of your app' ;;
esac
if [[ $hosted == yes || $(setting AUTO_CREATE) == false || $counters == *'{'*'{'* ]]; then # it can't make a counter by itself
  credentials+=' --counter ID' where+="${where:+, and }ID is that of a counter that is there"
fi
try="Try it:  $smoke $(uri "$prefix-increment") $credentials${where:+   ($where)}"
((${#shard_fields[@]} > 0)) || try="There is nothing to increment: documents are counted. Make the counter once, unless your app does:  counters create ID, with the same COUNTERS and FIELDS"
# Who may call what, as the functions and Cloud Run will have it.
who() {
  local counts reads pages
  if [[ $unchecked != [Tt]rue && ${#may[@]} == 0 ]]; then
    cat <<NOBODY
Nobody may call it yet. Run the same again with one of these:
  --web-app https://app.example       pages of your app, for users who sign in with Firebase
  --invoker user:you@example.com      you, or a service account of your backend
  --public --set AUTH=firebase        anybody on the internet who has a Firebase user's token
NOBODY
    return
  fi
  if [[ $unchecked == [Tt]rue || " ${may[*]-} " == *' allUsers '* ]]; then
    reads='anybody on the internet'
    counts=$reads
  else
    counts=$(printf ', %s' "${may[@]}")
    counts="${counts#, }, by Cloud Run's IAM"
    reads=$counts
  fi
  case $auth in
    firebase) counts="$counts, with the ID token of a user who signed in with Firebase" ;;
    appcheck) counts="$counts, with an App Check token of your app" ;;
  esac
  [[ $(setting PUBLIC_READS) == true ]] || reads=$counts
  pages=$(setting ALLOWED_ORIGINS)
  cat <<WHO
Who may call it:
  to count:       $counts
  to read totals: $reads
  web pages:      ${pages:-none: ALLOWED_ORIGINS is empty}
WHO
}
[[ $dry_run == yes ]] || cat <<DONE

Deployed in $(took). Increment is at $(uri "$prefix-increment")
$(who)
$try
Lag, instances and errors, live:  https://console.cloud.google.com/monitoring/dashboards/builder/${id##*/}?project=$project
DONE
[[ $budget_made == yes ]] || fail "all is deployed, but the budget can't be made: it takes roles/billing.costsManager on the billing account. See above"
((${#billed[@]} == 0)) || fail "all is deployed, but ${billed[*]} is still billed by the request: see above. That takes roles/run.admin; what is billed by the instance needs 1 CPU and 512 MiB at least. Then run this again"
((${#refused[@]} == 0)) || fail "all is deployed, but ${refused[*]} was refused. Where the organisation shares with its own domains only, allUsers is:" \
  "give --no-invoker-check instead of --public, or ask its administrators for an exception from iam.allowedPolicyMemberDomains"
