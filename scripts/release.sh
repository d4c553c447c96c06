#!/usr/bin/env bash
# Makes all that a release publishes, from its tag, into dist/release. The same tag gives the same bytes, on any machine with
# the Go that go.mod names. It publishes nothing: .github/workflows/release.yml does.
set -euo pipefail

usage() {
  cat <<'HELP'
Usage: scripts/release.sh VERSION

  VERSION   such as 0.1.0, without the v of its tag
  --help

The tag vVERSION has to be on the commit that is checked out, CHANGELOG.md to have a part [VERSION], and the web client's
package to be of that version. Nothing may differ from the commit. Needs Go, git, npm, GNU tar and gzip; the other tools
are built by Go, in the versions that are named here.
HELP
}

fail() {
  echo "release.sh: $*" >&2
  exit 1
}

case ${1:-} in
  --help | -h) usage && exit 0 ;;
  -*) echo "release.sh: $1: unknown option. See --help" >&2 && exit 2 ;;
esac
(($# == 1)) || fail "want one version. See --help"
version=$1
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || fail "$version: want a version such as 0.1.0"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

head=$(git rev-parse HEAD)
[[ $(git rev-parse -q --verify "refs/tags/v$version^{commit}" || true) == "$head" ]] || fail "the commit that is checked out is not tagged v$version"
dirty=$(git status --porcelain)
[[ -z $dirty ]] || fail "this differs from the commit: ${dirty//$'\n'/, }"
grep -qF "## [$version]" CHANGELOG.md || fail "CHANGELOG.md has no part [$version]"
grep -qF "\"version\": \"$version\"" web/package.json || fail "web/package.json is of another version"
tar --version 2>/dev/null | grep -q GNU || fail "tar is not GNU tar, whose archives are the same each time"

goreleaser=github.com/goreleaser/goreleaser/v2@v2.15.1
ko=github.com/google/ko@v0.19.1
crane=github.com/google/go-containerregistry/cmd/crane@v0.21.7

umask 022
export TZ=UTC LC_ALL=C SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
created=$(git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ)
scratch=$(mktemp -d)
registry=''
finish() {
  [[ -z $registry ]] || kill "$registry" 2>/dev/null || true
  rm -rf "$scratch"
}
trap finish EXIT

pack() { # folder, what is in it…: a tar archive, on standard output
  tar -C "$1" --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX -cf - "${@:2}"
}

tool() { # module, name: a tool, built once
  [[ -x $scratch/bin/$2 ]] || GOBIN=$scratch/bin go install "$1"
}

echo "== programs, formula, manifest"
tool $goreleaser goreleaser
# Tags of other versions on the same commit would be in the way.
GORELEASER_CURRENT_TAG=v$version "$scratch/bin/goreleaser" release --clean --skip=publish,announce,validate
out=dist/release
mkdir -p $out
cp dist/counters_*.tar.gz dist/counters_*.zip $out/
cp dist/homebrew/Formula/counters.rb $out/counters.rb
cp dist/scoop/bucket/counters.json $out/counters.json

echo "== what they are made of"
go build -o "$scratch/sbom" ./scripts/sbom
for archive in "$out"/counters_*.tar.gz "$out"/counters_*.zip; do
  name=${archive##*/}
  platform=${name#counters_"$version"_} && platform=${platform%%.*}
  "$scratch/sbom" --created "$created" --file "$name" dist/counters_"$platform"_*/counters* >"$archive.spdx.json"
done

echo "== the functions' source"
git ls-files | sort >"$scratch/all"
git ls-files --cached --ignored --exclude-from=.gcloudignore | sort >"$scratch/ignored"
comm -23 "$scratch/all" "$scratch/ignored" >"$scratch/uploaded"
xargs git archive --format=zip -o "$out/counters-functions_$version.zip" HEAD -- <"$scratch/uploaded"

echo "== the module for terraform's registry"
module=$scratch/terraform-google-counters
mkdir "$module"
git archive HEAD:terraform | tar -C "$module" --exclude='*.go' --exclude=check.sh --exclude=tests -xf -
mv "$module/release/archive.tf" "$module/archive.tf"
rmdir "$module/release"
cp "$out/counters-functions_$version.zip" "$module/functions.zip"
mkdir "$module/firestore"
git show HEAD:firestore/firestore.rules >"$module/firestore/firestore.rules"
git show HEAD:LICENSE >"$module/LICENSE"
blob=https://github.com/firestore-counters/counters/blob/v$version
sed -e "s|](\.\./|]($blob/|g" -e 's|source = "github.com/firestore-counters/counters//terraform"|source  = "firestore-counters/counters/google"\n  version = "'"$version"'"|' \
  "$module/README.md" >"$scratch/README.md"
mv "$scratch/README.md" "$module/README.md"
pack "$module" . | gzip -n9 >"$out/terraform-google-counters_$version.tar.gz"

echo "== the program, for npm"
package() { # name: a package of what is in $scratch/npm/package
  git show HEAD:LICENSE >"$scratch/npm/package/LICENSE"
  pack "$scratch/npm" package | gzip -n9 >"$out/firestore-counters-$1-$version.tgz"
  rm -r "$scratch/npm"
}
for os in darwin linux windows; do
  for arch in amd64 arm64; do
    platform=${os/windows/win32}-${arch/amd64/x64}
    mkdir -p "$scratch/npm/package"
    cp dist/counters_${os}_${arch}_*/counters* "$scratch/npm/package"
    "$scratch/sbom" --created "$created" --file "firestore-counters-cli-$platform-$version.tgz" "$scratch"/npm/package/counters* >"$scratch/spdx.json"
    mv "$scratch/spdx.json" "$scratch/npm/package/counters.spdx.json"
    echo "The program of [@firestore-counters/cli](https://www.npmjs.com/package/@firestore-counters/cli) for $platform." >"$scratch/npm/package/README.md"
    cat >"$scratch/npm/package/package.json" <<JSON
{
  "name": "@firestore-counters/cli-$platform",
  "version": "$version",
  "description": "The program of @firestore-counters/cli for $platform.",
  "repository": { "type": "git", "url": "git+https://github.com/firestore-counters/counters.git" },
  "license": "Apache-2.0",
  "os": ["${platform%-*}"],
  "cpu": ["${platform#*-}"],
  "preferUnplugged": true
}
JSON
    package "cli-$platform"
  done
done
mkdir -p "$scratch/npm/package"
git archive HEAD:scripts/npm | tar -C "$scratch/npm/package" -xf -
sed "s/\"0\.0\.0\"/\"$version\"/" scripts/npm/package.json >"$scratch/npm/package/package.json"
package cli

echo "== the web client"
(cd web && npm ci --silent --ignore-scripts && npm pack --silent --pack-destination "../$out" >/dev/null)

echo "== the image"
tool $ko ko
tool $crane crane
# Nothing but a folder for temporary files: certificates are in the program. ko takes what it builds on from a registry.
mkdir -p "$scratch/base/tmp"
tar -C "$scratch/base" --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=1777 -cf "$scratch/base.tar" tmp
base=127.0.0.1:41955/base # The same each time: ko notes in the image what that is of.
"$scratch/bin/crane" registry serve --address "${base%/*}" 2>"$scratch/registry" &
registry=$!
for ((i = 0; i < 100; i++)); do
  ! grep -q serving "$scratch/registry" || break
  sleep 0.1
done
for arch in amd64 arm64; do
  "$scratch/bin/crane" append --oci-empty-base -f "$scratch/base.tar" -t "$base:$arch" ||
    fail "crane's registry doesn't serve on ${base%/*}: $(<"$scratch/registry")"
  "$scratch/bin/crane" mutate --set-platform "linux/$arch" -t "$base:$arch" "$base:$arch"
done
"$scratch/bin/crane" index append -m "$base:amd64" -m "$base:arm64" -t "$base:$version"
KO_DOCKER_REPO=ghcr.io/firestore-counters/counters KO_DEFAULTBASEIMAGE=$base:$version "$scratch/bin/ko" build --push=false --bare \
  --tags "$version" --platform linux/amd64,linux/arm64 --ldflags=-s,-w --image-user 65532 --sbom none \
  --oci-layout-path dist/image ./cmd/counters \
  --image-label "org.opencontainers.image.source=https://github.com/firestore-counters/counters,org.opencontainers.image.version=$version,org.opencontainers.image.licenses=Apache-2.0,org.opencontainers.image.revision=$head"
pack dist/image . >"$out/counters-image_$version.tar"

echo "== checksums"
(cd $out && sha256sum -- *) >"$scratch/checksums.txt"
mv "$scratch/checksums.txt" $out/
cat $out/checksums.txt
