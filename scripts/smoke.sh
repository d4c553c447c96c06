#!/usr/bin/env bash
# Counts against a deployment, or against `counters dev`, as `counters smoke` does. Paths of files are from the root of the checkout.
cd "$(dirname "${BASH_SOURCE[0]}")/.." && exec go run ./cmd/counters smoke "$@"
