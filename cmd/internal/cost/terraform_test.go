package cost

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

//go:generate go test . -run TestTerraformHasThePrices -update

var update = flag.Bool("update", false, "write terraform/prices.json, as `go generate ./cmd/internal/cost` does")

// Terraform works out a ceiling by the same prices.
func TestTerraformHasThePrices(t *testing.T) {
	t.Parallel()
	type documents struct {
		Reads   float64 `json:"reads"` // per 100,000, or units
		Writes  float64 `json:"writes"`
		Deletes float64 `json:"deletes"`
	}
	editions := func(p Prices) map[string]documents {
		of := map[string]documents{}
		for _, e := range Editions {
			in := p.In(e)
			of[strings.ToUpper(string(e))] = documents{in.Reads, in.Writes, in.Deletes}
		}
		return of
	}
	type second struct {
		VCPU float64 `json:"vcpu"`
		GiB  float64 `json:"gib"`
	}
	list := struct {
		AsOf      string                          `json:"as_of"`
		Locations map[string]map[string]documents `json:"locations"`
		Dearest   map[string]documents            `json:"dearest"`
		Run       map[string]map[string]any       `json:"run"`
		Tier1     []string                        `json:"tier1"`
		AnswerGiB float64                         `json:"answer_gib"`
		LogGiB    float64                         `json:"log_gib"`
		PubSubTiB float64                         `json:"pubsub_tib"`
	}{AsOf: AsOf, Locations: map[string]map[string]documents{}, Dearest: editions(Dearest("")), Run: map[string]map[string]any{}, AnswerGiB: answerGiB, LogGiB: logGiB, PubSubTiB: pubSubTiB}
	for _, p := range List() {
		list.Locations[p.Location] = editions(p)
	}
	for tier, r := range tiers {
		list.Run[string(rune('0'+tier))] = map[string]any{
			"requests": r.Requests, "request": second{r.ByRequest.VCPU, r.ByRequest.GiB}, "instance": second{r.ByInstance.VCPU, r.ByInstance.GiB},
		}
	}
	list.Tier1 = strings.Fields(regions[1])
	slices.Sort(list.Tier1)
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const path = "../../../terraform/prices.json"
	there, err := os.ReadFile(path)
	if err == nil && string(there) == string(text)+"\n" {
		return
	}
	if !*update {
		t.Fatal("terraform/prices.json is not the price list: run go generate ./cmd/internal/cost")
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
