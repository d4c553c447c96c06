package cost

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// AsOf is when the price lists were looked through.
const AsOf = "2026-11"

// Prices are list prices in US dollars, without the free tier: of a location of the database, and of
// functions beside it.
type Prices struct {
	Location string `json:"location"` // of the database

	Edition Edition `json:"edition"`
	Reads   float64 `json:"reads_per_100k"` // and so on: Firestore, per 100,000 documents or, in Enterprise edition, units
	Writes  float64 `json:"writes_per_100k"`
	Deletes float64 `json:"deletes_per_100k"`
	Source  string  `json:"source"` // of these, with the month of the copy that they are from

	Run    `json:"cloud_run"`
	LogGiB float64 `json:"log_gib"` // of logs, beyond those that are free each month

	AnswerGiB float64 `json:"answer_gib"` // of answers to the internet, where that is dearest: see [NetworkSource]
	PubSubTiB float64 `json:"pubsub_tib"` // of events, published or delivered
}

// NetworkSource is where the prices of answers and of events are from: $0.12 a GiB to most of the world, $0.23 to
// China.
const NetworkSource = "cloud.google.com/vpc/network-pricing and pubsub/pricing, as of 2026-09"

const answerGiB, logGiB, pubSubTiB = 0.23, 0.50, 40

// Edition is that of a Firestore database.
type Edition string

const (
	Standard   Edition = "standard"   // bills documents
	Enterprise Edition = "enterprise" // bills units of what is read and written; a deletion, TTL's too, is a write
)

// Editions are the two.
var Editions = []Edition{Standard, Enterprise}

// Other is the other edition.
func (e Edition) Other() Edition {
	if e == Enterprise {
		return Standard
	}
	return Enterprise
}

// Run are Cloud Run's prices in a region.
type Run struct {
	Region   string  `json:"region"`
	Tier     int     `json:"tier"`
	Requests float64 `json:"requests_per_million"` // where instances are billed by the request

	ByRequest  Second `json:"by_request"`
	Kept       Second `json:"kept_warm"` // of an instance that is kept warm, without a request, billed by the request
	ByInstance Second `json:"by_instance"`
}

// Second is what a second of an instance costs.
type Second struct {
	VCPU float64 `json:"vcpu_second"`
	GiB  float64 `json:"gib_second"`
}

func (s Second) of(size Size) float64 { return size.VCPU*s.VCPU + size.GiB*s.GiB }

// RunSource is where Cloud Run's prices and the regions of its tiers are from.
const RunSource = "cloud.google.com/run/pricing and run/docs/locations, as of 2026-10"

// tiers are Cloud Run's prices by tier.
var tiers = map[int]Run{
	1: {Tier: 1, Requests: 0.40, ByRequest: Second{0.000024, 0.0000025}, Kept: Second{0.0000025, 0.0000025}, ByInstance: Second{0.000018, 0.000002}},
	2: {Tier: 2, Requests: 0.40, ByRequest: Second{0.0000336, 0.0000035}, Kept: Second{0.0000035, 0.0000035}, ByInstance: Second{0.0000216, 0.0000024}},
}

// regions are those of each tier.
var regions = map[int]string{
	1: "asia-east1 asia-northeast1 asia-northeast2 asia-south1 asia-southeast3 europe-north1 europe-north2 europe-southwest1 " +
		"europe-west1 europe-west4 europe-west8 europe-west9 me-west1 northamerica-south1 us-central1 us-east1 us-east4 us-east5 us-south1 us-west1",
	2: "africa-south1 asia-east2 asia-northeast3 asia-south2 asia-southeast1 asia-southeast2 australia-southeast1 australia-southeast2 " +
		"europe-central2 europe-west10 europe-west12 europe-west2 europe-west3 europe-west6 me-central1 me-central2 northamerica-northeast1 " +
		"northamerica-northeast2 southamerica-east1 southamerica-west1 us-west2 us-west3 us-west4",
}

// RunIn returns Cloud Run's prices in a region; false where the region is of no tier that is known.
func RunIn(region string) (Run, bool) {
	for tier, in := range regions {
		if slices.Contains(strings.Fields(in), region) {
			r := tiers[tier]
			r.Region = region
			return r, true
		}
	}
	return Run{}, false
}

// located are Firestore's prices of reads, writes and deletes, and the region of the functions where
// that isn't the location. Google's page shows one location at a time: only those are here of which a
// copy was found.
var located = []struct {
	location, region       string
	reads, writes, deletes float64
	source                 string
}{
	{"us-central1", "", 0.03, 0.09, 0.01, "cloud.google.com/firestore/pricing, as of 2026-09"},
	{"nam5", "us-central1", 0.06, 0.18, 0.02, "cloud.google.com/firestore/pricing, as of 2026"},
	{"eur3", "europe-west4", 0.06, 0.18, 0.02, "cloud.google.com/firestore/pricing, as of 2026-09"},
	{"asia-northeast1", "", 0.038, 0.115, 0.013, "cloud.google.com/firestore/pricing, as of 2026-09"},
	{"australia-southeast1", "", 0.038, 0.115, 0.013, "cloud.google.com/firestore/pricing, as of 2026-03"},
	{"europe-central2", "", 0.039, 0.117, 0.013, "cloud.google.com/firestore/pricing, as of 2026-09"},
	{"europe-west1", "", 0.033, 0.099, 0.011, "cloud.google.com/firestore/pricing, as of 2026-09"},
	{"me-central1", "", 0.036, 0.109, 0.012, "cloud.google.com/firestore/pricing, as of 2025"},
	{"us-west1", "", 0.03, 0.09, 0.01, "firebase.google.com/docs/firestore/pricing, as of 2023"},
	{"us-west2", "", 0.036, 0.108, 0.012, "firebase.google.com/docs/firestore/pricing, as of 2023"},
}

// List is the price list, by location.
func List() []Prices {
	var list []Prices
	for _, l := range located {
		run, known := RunIn(cmp.Or(l.region, l.location))
		if !known {
			panic("no tier of " + l.location) // Not possible: a test prices them all.
		}
		list = append(list, Prices{Location: l.location, Edition: Standard, Reads: l.reads, Writes: l.writes, Deletes: l.deletes, Source: l.source, Run: run, LogGiB: logGiB, AnswerGiB: answerGiB, PubSubTiB: pubSubTiB})
	}
	return list
}

// Locations are those of the price list.
func Locations() []string {
	var known []string
	for _, l := range located {
		known = append(known, l.location)
	}
	return known
}

// PricesOf returns the prices of a location of the database. One that isn't in the list is an error
// that says which are.
func PricesOf(location string) (Prices, error) {
	list := List()
	if i := slices.IndexFunc(list, func(p Prices) bool { return p.Location == location }); i >= 0 {
		return list[i], nil
	}
	return Prices{}, fmt.Errorf("no source for the prices of %q; take one with similar prices: %s", location, strings.Join(Locations(), ", "))
}

// units are Firestore's prices of a million units in Enterprise edition, where a copy was found.
var units = map[string]struct {
	reads, writes float64
	source        string
}{
	"us-central1":     {0.05, 0.26, "firebase.google.com/docs/firestore/enterprise/pricing, as of 2026"},
	"asia-northeast1": {0.0642, 0.3339, "cloud.google.com/firestore/enterprise/pricing, as of 2025"},
}

// In are the prices of a database of that edition in the same place. Where no copy of Enterprise's was found, they are
// those of us-central1, times what Standard's writes cost more there.
func (p Prices) In(e Edition) Prices {
	if e == p.Edition {
		return p
	}
	if e == Standard {
		if of, err := PricesOf(p.Location); err == nil {
			return of
		}
		return Dearest(p.Location)
	}
	u, known := units[p.Location]
	if !known {
		u = units["us-central1"]
		more := p.Writes / List()[0].Writes
		u.reads, u.writes, u.source = u.reads*more, u.writes*more, "estimated by those of us-central1"
	}
	p.Edition, p.Reads, p.Writes, p.Deletes, p.Source = e, u.reads/10, u.writes/10, u.writes/10, u.source
	return p
}

// Dearest are the highest of all prices in the list, for a location that isn't there: what something
// costs at most by them, it very likely costs at most.
func Dearest(location string) Prices {
	p := Prices{Location: location, Edition: Standard, Source: "the dearest location known", Run: tiers[2], AnswerGiB: answerGiB, PubSubTiB: pubSubTiB}
	for _, other := range List() {
		p.Reads, p.Writes, p.Deletes, p.LogGiB = max(p.Reads, other.Reads), max(p.Writes, other.Writes), max(p.Deletes, other.Deletes), max(p.LogGiB, other.LogGiB)
	}
	return p
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
