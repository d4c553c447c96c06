#!/usr/bin/env bash
# Removes what deploy.sh made, as `counters destroy` does. Paths of files are from the root of the checkout.
cd "$(dirname "${BASH_SOURCE[0]}")/.." && exec go run ./cmd/counters destroy "$@"
