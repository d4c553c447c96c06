package cost

import (
	"fmt"
	"strings"
)

// AsOf is when the prices were looked up.
const AsOf = "2026-11"

// Prices are list prices in US dollars, without the free tier.
type Prices struct {
	Location string `json:"location"` // of the database

	Reads   float64 `json:"reads_per_100k"` // and so on: Firestore, Standard edition, per 100,000 documents
	Writes  float64 `json:"writes_per_100k"`
	Deletes float64 `json:"deletes_per_100k"`

	// Cloud Run with request-based billing, in us-central1.
	Requests   float64 `json:"requests_per_million"`
	VCPUSecond float64 `json:"vcpu_second"`
	GiBSecond  float64 `json:"gib_second"`

	LogGiB float64 `json:"log_gib"` // of logs, beyond those that are free each month
}

// Cloud Run logs each request unless a deployment leaves that out.
const (
	requestLog = 1_000 // bytes, of one; assumed
	freeLogs   = 50    // GiB a month
)

// RequestLogs is what Cloud Run's log of so many requests a month comes to: GiB, and US dollars.
func (p Prices) RequestLogs(requests float64) (gib, usd float64) {
	gib = requests * requestLog / (1 << 30)
	return gib, max(gib-freeLogs, 0) * p.LogGiB
}

// An instance of a function: concurrency above 1 takes a whole vCPU at least.
const (
	instanceVCPU = 1
	instanceGiB  = 0.5
)

// List is the price list. Sources: cloud.google.com/firestore/pricing and
// cloud.google.com/run/pricing.
func List() []Prices {
	run := Prices{Requests: 0.40, VCPUSecond: 0.000024, GiBSecond: 0.0000025, LogGiB: 0.50}
	regional, multi := run, run
	regional.Location, regional.Reads, regional.Writes, regional.Deletes = "us-central1", 0.03, 0.09, 0.01
	multi.Location, multi.Reads, multi.Writes, multi.Deletes = "nam5", 0.06, 0.18, 0.02
	return []Prices{regional, multi}
}

// PricesOf returns the prices of a location of the database, us-central1 or nam5. Any other is an
// error that says so.
func PricesOf(location string) (Prices, error) {
	var known []string
	for _, p := range List() {
		if p.Location == location {
			return p, nil
		}
		known = append(known, p.Location)
	}
	return Prices{}, fmt.Errorf("no prices for location %q: want %s", location, strings.Join(known, " or "))
}
