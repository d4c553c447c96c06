#!/usr/bin/env bash
# Pushes the image of a release to GitHub's registry, as it was built, and signs it without a key. Run by
# .github/workflows/release.yml.
set -euo pipefail

usage() {
  cat <<'HELP'
Usage: scripts/publish-image.sh VERSION FOLDER

  VERSION   such as 0.1.0
  FOLDER    with counters-image_VERSION.tar
  --help

Needs Go, and GITHUB_TOKEN of somebody who may write packages. IMAGE names another place than
ghcr.io/firestore-counters/counters; without GITHUB_TOKEN nothing is logged in to, and nothing is signed.
HELP
}

case ${1:-} in
  --help | -h) usage && exit 0 ;;
esac
if (($# != 2)); then
  usage >&2
  exit 2
fi
version=$1 folder=$2 image=${IMAGE:-ghcr.io/firestore-counters/counters}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export GOBIN=$scratch/bin

go install github.com/google/go-containerregistry/cmd/crane@v0.21.7
mkdir "$scratch/image"
tar -C "$scratch/image" -xf "$folder/counters-image_$version.tar"
if [[ -n ${GITHUB_TOKEN:-} ]]; then
  echo "$GITHUB_TOKEN" | "$GOBIN/crane" auth login "${image%%/*}" --username "${GITHUB_ACTOR:-github}" --password-stdin
fi
pushed=$("$GOBIN/crane" push --index "$scratch/image" "$image:$version")
[[ $version == *-* ]] || "$GOBIN/crane" tag "$pushed" latest
echo "pushed $pushed"
if [[ -n ${GITHUB_TOKEN:-} ]]; then
  go install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3
  "$GOBIN/cosign" sign --yes --recursive "$pushed"
fi
