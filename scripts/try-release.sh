#!/usr/bin/env bash
# Builds what would be the next release, twice, and installs and runs what is made, in folders that have nothing else.
set -euo pipefail

usage() {
  cat <<'HELP'
Usage: scripts/try-release.sh [FOLDER]

  FOLDER   what scripts/release.sh has made already, to install and run that; by default the commit that is checked out is
           tagged in two clones, and built in each
  SCOOP_SCHEMA   in the environment: Scoop's schema.json, which its manifest is held against with Python's jsonschema
  --help

Needs what release.sh needs, and Linux on amd64. The image is run as root alone, in namespaces of its own, and terraform, ruby
and brew check what is theirs where they are installed; it says what it leaves out.
HELP
}

case ${1:-} in
  --help | -h) usage && exit 0 ;;
  -*) echo "try-release.sh: $1: unknown option. See --help" >&2 && exit 2 ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scratch=$(mktemp -d)
processes=()
container=''
tap=''
finish() {
  if [[ -n $tap ]]; then
    brew uninstall --force --formula firestore-counters/tried/counters >/dev/null 2>&1 || true
    rm -rf "$tap" "${cached:-}"
    rmdir "${tap%/*}" 2>/dev/null || true
  fi
  [[ -z $container ]] || pkill -P "$container" || true # unshare takes no notice of SIGTERM: it ends with what it has started
  for process in ${processes[@]+"${processes[@]}"}; do kill "$process" 2>/dev/null || true; done
  wait
  rm -rf "$scratch"
}
trap finish EXIT
fail() {
  echo "try-release.sh: $*" >&2
  exit 1
}
ok() { printf 'ok    %s\n' "$*"; }

version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' web/package.json)
folder=${1:-}
if [[ -z $folder ]]; then
  head=$(git rev-parse HEAD)
  for clone in 1 2; do
    git clone --quiet . "$scratch/$clone"
    git -C "$scratch/$clone" checkout --quiet --detach "$head" # whatever was committed since
    git -C "$scratch/$clone" tag "v$version"
    "$scratch/$clone/scripts/release.sh" "$version" >"$scratch/log" 2>&1 || fail "$(tail -20 "$scratch/log")"
  done
  diff -r "$scratch/1/dist/release" "$scratch/2/dist/release" || fail "two runs made different bytes"
  ok "two runs make the same bytes"
  folder=$scratch/1/dist/release
fi
folder=$(cd "$folder" && pwd)
(cd "$folder" && sha256sum --quiet --check checksums.txt)
ok "checksums, of $(wc -l <"$folder/checksums.txt") files"
# The second column of its table.
awk -F'|' '/^\|/ { print $3 }' docs/installing.md | tr -d ' ' | tr ',;`' '\n' | grep -E '^[a-z0-9._-]+\.[a-z]+$' | sort -u >"$scratch/named"
while read -r name; do
  [[ -e $folder/$name ]] || fail "docs/installing.md names $name, which is not among what was made"
done <"$scratch/named"
comm -23 <(awk '$2 !~ /spdx.json$/ { print $2 }' "$folder/checksums.txt" | sort) "$scratch/named" >"$scratch/unnamed"
[[ ! -s $scratch/unnamed ]] || fail "docs/installing.md doesn't name $(tr '\n' ' ' <"$scratch/unnamed")"
ok "docs/installing.md names what was made"

unpack() { # archive, folder
  mkdir -p "$2"
  tar -C "$2" -xf "$1"
}

# The system is started by what follows, in a folder of its own, on free ports. Its gateway is in $gateway then.
starts() { # name, command…
  local name=$1
  shift
  mkdir -p "$scratch/run"
  (cd "$scratch/run" && exec "$@" dev --port 0 --firestore-port 0) >"$scratch/$name.out" 2>&1 &
  processes+=($!)
  [[ $1 != unshare ]] || container=$!
  for ((i = 0; i < 600; i++)); do
    ! grep -qx ready "$scratch/$name.out" 2>/dev/null || break
    sleep 0.1
  done
  gateway=$(grep -om1 'http://127\.0\.0\.1:[0-9]*' "$scratch/$name.out") || fail "$name: $(<"$scratch/$name.out")"
}
counts() { # name, command…
  starts "$@"
  local name=$1
  [[ $(curl -sS -X POST "$gateway/increment/post-123") == *'"by":1'* ]] || fail "$name doesn't count"
  ok "$name counts"
}

unpack "$folder/counters_${version}_linux_amd64.tar.gz" "$scratch/program"
[[ $("$scratch/program/counters" version) == "counters v$version "* ]] || fail "the program says $("$scratch/program/counters" version)"
counts program "$scratch/program/counters"
"$scratch/program/counters" deploy --project a-project --location us-central1 --dry-run >"$scratch/deploy" 2>&1 || fail "deploy: $(<"$scratch/deploy")"
grep -q 'gcloud functions deploy counters-rollup' "$scratch/deploy" || fail "deploy: $(<"$scratch/deploy")"
ok "deploy knows what to do"
(cd "$scratch" && "$scratch/program/counters" deploy --project a-project --location us-central1 --dry-run --source "$folder/counters-functions_$version.zip" >"$scratch/deploy" 2>&1) || fail "deploy: $(<"$scratch/deploy")"
mkdir "$scratch/functions"
(cd "$scratch/functions" && unzip -q "$folder/counters-functions_$version.zip" && go build -o "$scratch/functions.a" . && [[ ! -e source.go && ! -e function_test.go ]])
ok "the functions' archive builds, and deploy takes it"
for file in "$folder"/*.spdx.json; do
  python3 -m json.tool "$file" >/dev/null
done

if ((EUID == 0)); then
  unpack "$folder/counters-image_$version.tar" "$scratch/image"
  blob() { echo "$scratch/image/blobs/sha256/${1#sha256:}"; }
  json() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$@"; }
  index=$(blob "$(json "$scratch/image/index.json" 'd["manifests"][0]["digest"]')")
  manifest=$(blob "$(json "$index" 'next(m["digest"] for m in d["manifests"] if m["platform"] == {"os": "linux", "architecture": "amd64"})')")
  json "$index" 'next(m["digest"] for m in d["manifests"] if m["platform"] == {"os": "linux", "architecture": "arm64"})' >/dev/null
  for layer in $(json "$manifest" '" ".join(l["digest"] for l in d["layers"])'); do
    unpack "$(blob "$layer")" "$scratch/container" 2>/dev/null
  done
  config=$(blob "$(json "$manifest" 'd["config"]["digest"]')")
  program=$(json "$config" 'd["config"]["Entrypoint"][0]')
  user=$(json "$config" 'd["config"]["User"]')
  mkdir -p "$scratch/container/proc" # which every container has, and only this one sees
  counts image unshare --pid --fork --kill-child --mount-proc --root="$scratch/container" --setgid="$user" --setuid="$user" "$program"
else
  echo "--    the image was not run: only root may make namespaces"
fi

# The program from npm, as somebody has it who has no Go: every program of this machine but that one, an empty home, and a
# registry that has these packages alone.
mkdir "$scratch/path" "$scratch/home" "$scratch/registry"
IFS=: read -ra path <<<"$PATH"
for dir in "${path[@]}"; do
  ln -s "$dir"/* "$scratch/path/" 2>/dev/null || true # what an earlier folder has comes first
done
rm -f "$scratch"/path/{go,gofmt,counters}
echo '{"overrides": {"node-fetch": "2.7.0"}}' >"$scratch/registry/package.json" # one is asked for by a tag, which not every mirror has
npm install --loglevel error --no-audit --no-fund --ignore-scripts --prefix "$scratch/registry" verdaccio@6.8.0 >/dev/null
port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })')
cat >"$scratch/registry/config.yaml" <<'YAML'
storage: ./storage
max_body_size: 100mb
packages:
  '**': { access: $all, publish: $all }
log: { type: stdout, level: warn }
YAML
"$scratch/registry/node_modules/.bin/verdaccio" --config "$scratch/registry/config.yaml" --listen "127.0.0.1:$port" >"$scratch/registry/log" 2>&1 &
processes+=($!)
curl -s --retry 60 --retry-connrefused --retry-delay 1 "http://127.0.0.1:$port/-/ping" >/dev/null || fail "verdaccio: $(<"$scratch/registry/log")"
printf '%s\n' "registry=http://127.0.0.1:$port/" "//127.0.0.1:$port/:_authToken=anybody" update-notifier=false >"$scratch/home/.npmrc"
without_go=(env -i "HOME=$scratch/home" "PATH=$scratch/path" "TMPDIR=$scratch")
! "${without_go[@]}" bash -c 'command -v go' || fail "there is a Go"
for package in "$folder"/firestore-counters-cli-*.tgz; do
  "${without_go[@]}" npm publish --silent --access public "$package" >/dev/null || fail "npm doesn't publish ${package##*/}"
done
npx=("${without_go[@]}" npx --yes @firestore-counters/cli)
SECONDS=0
starts npx "${npx[@]}"
[[ $(curl -sS -X POST "$gateway/increment/first") == *'"by":1'* ]] || fail "npx doesn't count"
ok "npx downloads the program without Go, starts it and counts, in $SECONDS s"
# The session of the README, without the terminal that has just been started.
python3 - README.md "${gateway#http://}" "${without_go[@]}" <<'PYTHON' || fail "the session of README.md"
import re, subprocess, sys, time
page, gateway, *shell = sys.argv[1:]
time_of = lambda text: re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
typed = 0
for block in re.findall(r"^```console\n(.*?)^```", open(page).read(), re.M | re.S):
    if re.search(r"(counters|cli) dev", block):
        continue
    for command, want in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
        end = time.monotonic() + 60
        while True:
            got = subprocess.run([*shell, "bash", "-c", command.replace("localhost:8081", gateway)], capture_output=True, text=True).stdout
            if time_of(got) == time_of(want):
                break
            if not command.startswith("sleep ") or time.monotonic() > end: # a total comes when it comes
                sys.exit(f"{command}\nprints\n{got}\nand is said to print\n{want}")
        typed += 1
assert typed > 2, typed
PYTHON
ok "README.md's session runs with it"
mapfile -t exported < <(sed -n 's/^export //p' "$scratch/npx.out")
[[ $("${without_go[@]}" "${exported[@]}" npx --yes @firestore-counters/cli get post-123) == 6 ]] || fail "npx … get"
"${npx[@]}" deploy --project a-project --location us-central1 --dry-run >"$scratch/deploy" 2>&1 || fail "deploy: $(<"$scratch/deploy")"
grep -q 'gcloud functions deploy counters-rollup' "$scratch/deploy" || fail "npx … deploy: $(<"$scratch/deploy")"
installed=$(find "$scratch/home/.npm/_npx" -path '*/cli-linux-x64/*')
for part in counters LICENSE counters.spdx.json; do
  grep -q "/$part$" <<<"$installed" || fail "the package has no $part"
done
cmp "$(grep '/counters$' <<<"$installed")" "$scratch/program/counters"
ok "the other commands, and deploy, run with it; its program is the archive's"
kill "${processes[-1]}"
for ((i = 0; i < 300; i++)); do
  curl -s -o /dev/null "$gateway" || break
  sleep 0.1
done
! curl -s -o /dev/null "$gateway" || fail "the program outlives npx"
ok "it ends with npx"

mkdir "$scratch/npm"
(cd "$scratch/npm" && npm install --silent --no-save --no-package-lock --legacy-peer-deps "$folder/firestore-counters-web-$version.tgz" &&
  node --input-type=module -e 'const m = await import("@firestore-counters/web"); if (Object.keys(m).length === 0) process.exit(1)')
ok "the web client installs and loads"

module=$scratch/terraform-google-counters
unpack "$folder/terraform-google-counters_$version.tar.gz" "$module"
cmp "$module/functions.zip" "$folder/counters-functions_$version.zip"
if command -v terraform >/dev/null; then
  # As a repository with tags is what the registry takes.
  git -C "$module" init --quiet --initial-branch=main
  git -C "$module" add .
  git -C "$module" -c user.name=a -c user.email=a@example.com commit --quiet -m "$version"
  git -C "$module" tag "v$version"
  mkdir "$scratch/terraform"
  for source in "git::file://$module?ref=v$version" "git::file://$module//examples/basic?ref=v$version"; do
    printf 'module "counters" {\n  source     = "%s"\n  project_id = "a-project"\n  location   = "us-central1"\n}\n' "$source" >"$scratch/terraform/main.tf"
    terraform -chdir="$scratch/terraform" get >/dev/null || fail "terraform doesn't take $source"
    terraform fmt -check -recursive "$module" >/dev/null || fail "not formatted: $(terraform fmt -check -recursive "$module")"
    if terraform -chdir="$scratch/terraform" init -backend=false -input=false >"$scratch/init" 2>&1; then
      terraform -chdir="$scratch/terraform" validate >/dev/null || fail "not valid: $(terraform -chdir="$scratch/terraform" validate)"
      ok "terraform initialises and validates ${source##*/}"
    else
      echo "--    terraform takes ${source##*/}, and has no providers to validate it: $(grep -m1 Error "$scratch/init")"
    fi
    rm -rf "$scratch/terraform/.terraform"*
  done
else
  echo "--    terraform is not installed: its module was not initialised"
fi

if command -v ruby >/dev/null; then
  ruby -c "$folder/counters.rb" >/dev/null && ok "the formula is Ruby"
else
  echo "--    ruby is not installed: the formula was not read"
fi
if ! command -v brew >/dev/null; then
  echo "--    brew is not installed: the formula was not installed"
elif ! brew config >"$scratch/brew" 2>&1; then
  echo "--    brew doesn't run, and the formula was not installed: $(head -1 "$scratch/brew")"
elif [[ -e $(brew --prefix)/opt/counters ]]; then
  echo "--    brew has a counters already: the formula was not installed"
else
  export HOMEBREW_NO_AUTO_UPDATE=1 HOMEBREW_NO_ANALYTICS=1 HOMEBREW_NO_INSTALL_CLEANUP=1 HOMEBREW_NO_REQUIRE_TAP_TRUST=1
  tap=$(brew --repository)/Library/Taps/firestore-counters/homebrew-tried # taken away by finish
  install -d -m 755 "${tap%/*}" "$tap" "$tap/Formula"
  install -m 644 "$folder/counters.rb" "$tap/Formula/counters.rb"
  # Nothing is published yet: the archive is where brew would download it to, which still compares checksums.
  cached=$(brew --cache firestore-counters/tried/counters)
  install -d -m 755 "${cached%/*}"
  install -m 644 "$folder/counters_${version}_linux_amd64.tar.gz" "$cached"
  brew install --formula firestore-counters/tried/counters >"$scratch/brew" 2>&1 || fail "brew doesn't install the formula: $(<"$scratch/brew")"
  "$(brew --prefix)/bin/counters" version | grep -q "v$version" || fail "brew installed another version"
  ok "brew installs the formula"
  # The style is of what GoReleaser wrote. Both are commands for developers: without the variable, brew would keep that it has one.
  for command in "test" "audit --strict --skip-style"; do
    # shellcheck disable=SC2086 # the command is words
    HOMEBREW_DEV_CMD_RUN=1 brew $command firestore-counters/tried/counters >"$scratch/brew" 2>&1 || fail "brew $command: $(<"$scratch/brew")"
    ok "brew $command"
  done
fi
if [[ -n ${SCOOP_SCHEMA:-} ]]; then
  python3 -c 'import json, sys, jsonschema; jsonschema.validate(*[json.load(open(f)) for f in sys.argv[1:]])' "$folder/counters.json" "$SCOOP_SCHEMA" ||
    fail "the Scoop manifest is not of Scoop's schema"
  ok "the Scoop manifest is of Scoop's schema"
else
  echo "--    SCOOP_SCHEMA is not set: the Scoop manifest was not held against Scoop's schema"
fi
for file in linux_amd64 linux_arm64 darwin_amd64 darwin_arm64; do
  grep -q "$(awk -v f="counters_${version}_$file.tar.gz" '$2 == f { print $1 }' "$folder/checksums.txt")" "$folder/counters.rb" || fail "the formula has another checksum of $file"
done
ok "the formula's checksums"
python3 - "$folder" "$version" <<'PYTHON' || fail "the Scoop manifest"
import json, sys
folder, version = sys.argv[1:]
sums = dict(reversed(line.split()) for line in open(f"{folder}/checksums.txt"))
manifest = json.load(open(f"{folder}/counters.json"))
assert manifest["version"] == version and manifest["license"] == "Apache-2.0", manifest
assert set(manifest["architecture"]) == {"64bit", "arm64"}, manifest
for name, arch in manifest["architecture"].items():
    file = arch["url"].rsplit("/", 1)[1]
    assert arch["url"] == f"https://github.com/firestore-counters/counters/releases/download/v{version}/{file}", arch
    assert arch["hash"] == sums[file] and arch["bin"] == ["counters.exe"], arch
    assert file == f"counters_{version}_windows_{dict([('64bit', 'amd64'), ('arm64', 'arm64')])[name]}.zip", arch
PYTHON
ok "the Scoop manifest's checksums"
