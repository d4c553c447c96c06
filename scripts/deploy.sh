#!/usr/bin/env bash
# Deploys counters, as `counters deploy` does. Paths of files are from the root of the checkout.
cd "$(dirname "${BASH_SOURCE[0]}")/.." && exec go run ./cmd/counters deploy "$@"
