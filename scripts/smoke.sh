#!/usr/bin/env bash
# Counts against a deployment, or against `counters dev`, and checks that it answers as it should.
set -euo pipefail

me=${COUNTERS_PROGRAM:+counters smoke} # which runs this without a checkout
me=${me:-scripts/smoke.sh}

usage() {
  sed "1s|scripts/smoke.sh|$me|" <<'HELP'
Usage: scripts/smoke.sh URL [options]

  URL               of Increment: http://127.0.0.1:8081/increment, or what `terraform output increment_url` says
  --counter ID      count on this counter, which exists; the checks leave it 11 higher (default: a new one, which
                    needs AUTO_CREATE=true, and COUNTERS with one wildcard)
  --token TOKEN     sent as Authorization: Bearer, such as "$(gcloud auth print-identity-token)" for a private function
  --header 'N: V'   sent with every request, such as X-Firebase-AppCheck; may be repeated
  --timeout S       how long the total may take to arrive (default: 30)
  --dry-run         print each command, run none
  --help

Needs bash and curl. Exit code 1 when a check fails. URL must be of the function itself: what stands before it
(a load balancer, a proxy) may answer for it.
HELP
}

code=2 # the arguments are wrong, until they are checked
fail() {
  echo "${me##*/}: $*" >&2
  exit $code
}

url='' counter='' timeout=30 dry_run=no headers=()
while (($#)); do
  arg=$1
  shift
  case $arg in
    --help | -h) usage && exit 0 ;;
    --dry-run) dry_run=yes && continue ;;
    --*=*) set -- "${arg#*=}" "$@" && arg=${arg%%=*} ;;
    --*) ;;
    *)
      [[ -z $url ]] || fail "$arg: one URL is enough. See --help"
      url=${arg%/}
      continue
      ;;
  esac
  (($#)) || fail "$arg: unknown option, or no value. See --help"
  case $arg in
    --counter) counter=$1 ;;
    --token) headers+=(-H "Authorization: Bearer $1") ;;
    --header) headers+=(-H "$1") ;;
    --timeout) timeout=$1 ;;
    *) fail "$arg: unknown option. See --help" ;;
  esac
  shift
done
[[ $url == http*://* ]] || fail "want the URL of Increment, such as http://127.0.0.1:8081/increment. See --help"
[[ $timeout =~ ^[0-9]+$ ]] || fail "--timeout $timeout: want seconds"
code=1

new=no
if [[ -z $counter ]]; then
  new=yes
  counter=smoke-$(date +%s)-$RANDOM
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# Sends one request. Leaves status and body behind; status 000 is no answer at all.
request() { # method path [curl arguments]
  local method=$1 path=$2
  shift 2
  local command=(curl -sS --path-as-is -m 90 -X "$method" ${headers[@]+"${headers[@]}"} "$@" "$url$path")
  status=000 body=''
  if [[ $dry_run == yes ]]; then
    printf '%q ' "${command[@]}"
    echo
    return
  fi
  status=$("${command[@]}" -D "$scratch/headers" -o "$scratch/body" -w '%{http_code}' 2>"$scratch/error") || status=000
  [[ ! -f $scratch/body ]] || body=$(tr -d '\n' <"$scratch/body")
}

row() { # ok|FAIL name want got
  printf '%-5s %-44s %-22s %s\n' "$@"
}

report() { # name want got
  if [[ $2 == "$3" ]]; then
    row ok "$@"
  else
    row FAIL "$@"
    failures=$((failures + 1))
  fi
}

# A request, the status that it must be answered with, and what must be in the answer.
check() { # name status contains method path [curl arguments]
  local name=$1 want=$2 contains=$3
  shift 3
  rm -f "$scratch/headers" "$scratch/body"
  request "$@"
  [[ $dry_run == no ]] || return 0
  local got=$status
  if [[ $status == 000 ]]; then
    got="no answer: $(head -c 200 "$scratch/error")"
  elif [[ $status == "$want" ]]; then
    if [[ -n $contains && ${body// /} != *"$contains"* ]]; then
      got="$status without $contains: ${body:0:200}"
    elif ((want >= 400)) && ! grep -qi '^content-type: application/problem+json' "$scratch/headers"; then
      got="$status, not as application/problem+json"
    fi
  else
    got="$status: ${body:0:200}"
  fi
  report "$name" "$want" "$got"
}

# Leaves the total that a GET answers in got, or nothing.
total() { # path
  request GET "$1"
  got=''
  [[ $status != 200 ]] || got=$(sed -n 's/.*"total" *: *\(-\{0,1\}[0-9][0-9]*\).*/\1/p' <<<"$body")
}

json=(-H 'Content-Type: application/json')
big() { # bytes: a body of more than that
  head -c "$1" /dev/zero | tr '\0' ' '
  echo '{"by":1}'
}

if [[ $dry_run == no ]]; then
  row '' CHECK WANT GOT
fi

# What counts. Together +11: 1 + 5 - 4 + 2 + 3 + 4.
before=0
if [[ $new == no && $dry_run == no ]]; then
  total "/$counter?exact=true"
  before=$got
  [[ -n $before ]] || fail "GET $url/$counter: $status $body. Is that counter there, and may you read it?"
fi
key=smoke-$RANDOM-$RANDOM
check 'POST, empty body' 200 '"by":1' POST "/$counter"
if [[ $dry_run == no && $status == 000 ]]; then
  fail "no answer from $url"
elif [[ $new == yes && ($status == 404 || $status == 400) ]]; then
  fail "$counter can't be created: set AUTO_CREATE=true, or name a counter that exists with --counter, such as red/post-1 where COUNTERS has two wildcards, or a document of your app's with HOSTED=true"
elif [[ $status == 401 || $status == 403 ]]; then
  fail "not allowed: give --token, and see who has roles/run.invoker, and what AUTH is"
fi
check 'POST, by 5' 200 '"by":5' POST "/$counter" "${json[@]}" -d '{"by":5}'
check 'POST, by -4' 200 '"by":-4' POST "/$counter" "${json[@]}" -d '{"by":-4}'
check 'with an Idempotency-Key' 200 '"by":2' POST "/$counter" "${json[@]}" -H "Idempotency-Key: $key" -d '{"by":2}'
check 'the same again' 200 '"replayed":true' POST "/$counter" "${json[@]}" -H "Idempotency-Key: $key" -d '{"by":2}'
check 'the same key, another body' 422 '' POST "/$counter" "${json[@]}" -H "Idempotency-Key: $key" -d '{"by":3}'
check 'a batch' 200 '' POST / "${json[@]}" -d '{"increments":[{"counter":"'"$counter"'","by":3},{"counter":"'"$counter"'","by":4}]}'

# What is refused, and counts nothing.
id1501=$(head -c 1501 /dev/zero | tr '\0' x)
check 'by 0' 400 '' POST "/$counter" "${json[@]}" -d '{"by":0}'
check 'by null' 400 '' POST "/$counter" "${json[@]}" -d '{"by":null}'
check 'by a fraction' 400 '' POST "/$counter" "${json[@]}" -d '{"by":1.5}'
check 'by a string' 400 '' POST "/$counter" "${json[@]}" -d '{"by":"1"}'
check 'by beyond int64' 400 '' POST "/$counter" "${json[@]}" -d '{"by":9223372036854775808}'
check 'bad JSON' 400 '' POST "/$counter" "${json[@]}" -d '{"by":'
check 'trailing data' 400 '' POST "/$counter" "${json[@]}" -d '{"by":1} {"by":1}'
check 'an unknown field' 400 '' POST "/$counter" "${json[@]}" -d '{"by":1,"of":2}'
check 'a batch with one bad increment' 400 '' POST / "${json[@]}" -d '{"increments":[{"counter":"'"$counter"'","by":1},{"counter":"'"$counter"'","by":0}]}'
check 'a reserved id' 400 '' POST /__smoke__
check 'an id of 1,501 bytes' 400 '' POST "/$id1501"
check 'an id that is not UTF-8' 400 '' POST /%ff
check 'an id with a slash' 400 '' POST "/$counter%2Fx"
check 'a counter that is not there' 404 '' GET "/$counter-not-there"
check 'another method' 405 '' DELETE "/$counter"
if [[ $dry_run == no ]]; then
  report '  and its Allow header' yes "$(grep -qi '^allow: .*POST' "$scratch/headers" && echo yes || echo no)"
fi
big 65536 >"$scratch/64k"
check 'a body over 64 KiB' 413 '' POST "/$counter" "${json[@]}" -H 'Expect:' --data-binary @"$scratch/64k"
big 1048576 >"$scratch/1m"
check 'a batch over 1 MiB' 413 '' POST / "${json[@]}" -H 'Expect:' --data-binary @"$scratch/1m"

# What it came to: at once on the shards, and soon in the total.
if [[ $dry_run == yes ]]; then
  request GET "/$counter?exact=true"
  request GET "/$counter"
  exit 0
fi
want=$((before + 11))
total "/$counter?exact=true"
report 'GET, exact' "total $want" "total $got"
started=$SECONDS
total "/$counter"
while [[ $got != "$want" ]] && ((SECONDS - started < timeout)); do
  sleep 1
  total "/$counter"
done
report "GET, after $((SECONDS - started)) s" "total $want" "total $got"

echo
if ((failures)); then
  echo "$failures failed, on counter $counter"
  exit 1
fi
echo "all green, on counter $counter"
