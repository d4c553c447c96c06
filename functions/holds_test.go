package functions

import (
	"strings"
	"testing"
	"time"
)

// An amount is held, settled, given back and read; each answer is the same when it is asked for again.
func TestHoldsOfAmounts(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment", "LIMIT=any", "FIELDS=credits=limit(5000),likes")
	p.create(t, "alice")
	ask := func(name, method, path, body, key string, status int, want ...string) answer {
		t.Helper()
		var a answer
		if key == "" {
			a = p.do(t, method, path, body)
		} else {
			a = p.do(t, method, path, body, "Idempotency-Key", key)
		}
		for _, text := range want {
			if a.status != status || !strings.Contains(a.text, text) {
				t.Errorf("%s: %d %s, want %d with %s", name, a.status, a.text, status, text)
			}
		}
		return a
	}
	first := ask("hold", "POST", "/alice/credits/holds", `{"by": 4000, "for": "2m"}`, "x", 200, `{"counter":"alice","field":"credits","hold":"x","state":"held","held":4000,"until":"2`, `"committed_at":"`, `"left":1000,`)
	until, err := time.Parse(time.RFC3339Nano, first.body["until"].(string))
	if left := time.Until(until); err != nil || left > 2*time.Minute || left < time.Minute {
		t.Errorf("held until %v, %v", first.body["until"], err)
	}
	same := `"until":"` + first.body["until"].(string) + `"`
	ask("hold again", "POST", "/alice/credits/holds", `{"by": 4000, "for": "3m"}`, "x", 200, `"state":"held","held":4000,`+same+`,"replayed":true}`)
	ask("the same by its path", "PUT", "/alice/credits/holds/x", `{"for": "2m", "by": 4e3}`, "", 200, `"replayed":true`)
	ask("another amount", "PUT", "/alice/credits/holds/x", `{"by": 4001, "for": "2m"}`, "", 422, "another request")
	ask("no room", "PUT", "/alice/credits/holds/y", `{"by": 1001, "for": "2m"}`, "", 409, `"reason":"limit-reached","counter":"alice","field":"credits","left":1000`)
	ask("read", "GET", "/alice/credits/holds/x", "", "", 200, `{"counter":"alice","field":"credits","hold":"x","state":"held","held":4000,`+same+"}")
	ask("no such hold", "GET", "/alice/credits/holds/y", "", "", 404, "there is no such hold")
	for _, left := range []string{`,"left":1873`, ""} { // which only the request knows that has settled it
		ask("settle", "POST", "/alice/credits/holds/x/settle", `{"by": 3127}`, "", 200, `{"counter":"alice","field":"credits","hold":"x","state":"settled","held":4000,`+same+`,"by":3127,"returned":873`+left+`}`)
	}
	ask("another amount", "POST", "/alice/credits/holds/x/settle", `{"by": 3128}`, "", 409, `the hold is settled for 3127; nothing was changed","reason":"settled","by":3127`)
	ask("give back", "DELETE", "/alice/credits/holds/x", "", "", 409, `"reason":"settled","by":3127`)
	ask("read what is settled", "GET", "/alice/credits/holds/x", "", "", 200, `"by":3127,"returned":873}`)

	own := ask("hold without a key", "POST", "/alice/credits/holds", `{"by": 3, "for": "1s"}`, "", 200, `"state":"held","held":3,`)
	ask("settle for more", "POST", "/alice/credits/holds/"+own.body["hold"].(string)+"/settle", `{"by": 5}`, "", 200, `"held":3,`, `"by":5,"returned":0`)
	ask("hold", "PUT", "/alice/credits/holds/z", `{"by": 10, "for": "1h"}`, "", 200, `"held":10`)
	ask("no room for more", "POST", "/alice/credits/holds/z/settle", `{"by": 10000}`, "", 409, `"reason":"limit-reached"`)
	for _, left := range []string{`,"left":1868`, ""} {
		ask("give back", "DELETE", "/alice/credits/holds/z", "", "", 200, `"state":"ended","held":10,`, `"returned":10`+left+`}`)
	}
	ask("too late", "POST", "/alice/credits/holds/z/settle", `{"by": 1}`, "", 409, `"reason":"hold-ended"`)
	ask("never held", "DELETE", "/alice/credits/holds/never", "", "", 200, `"hold":"never","state":"ended","held":0,"returned":0}`)
	ask("nor will be", "PUT", "/alice/credits/holds/never", `{"by": 1, "for": "1h"}`, "", 409, `"reason":"hold-ended"`)
	ask("without a limit", "PUT", "/alice/likes/holds/x", `{"by": 3, "for": "1h"}`, "", 200, `"field":"likes","hold":"x","state":"held"`)
	ask("settle all back", "POST", "/alice/likes/holds/x/settle", `{"by": 0}`, "", 200, `"by":0,"returned":3}`)
	ask("the sum", "GET", "/alice?exact=true", "", "", 200, `"totals":{"credits":3132,"likes":0}`)
	p.create(t, "carol")
	ask("what is left", "POST", "/carol", `{"by": {"credits": 8, "likes": 1}}`, "left", 200, `"by":{"credits":8,"likes":1},"left":{"credits":4992},"committed_at":"`)
	two := `{"increments": [{"counter": "carol", "by": {"credits": 2}}, {"counter": "alice", "by": {"likes": 1}}]}`
	ask("of several", "POST", "/", two, "two", 200, `{"increments":[{"counter":"carol","by":{"credits":2},"left":{"credits":4990}},{"counter":"alice","by":{"likes":1}}],"committed_at":"`)
	ask("a replay of several", "POST", "/", two, "two", 200, `{"increments":[{"counter":"carol","by":{"credits":2}},{"counter":"alice","by":{"likes":1}}],"replayed":true`)
	ask("an id beside another key", "PUT", "/carol/likes/holds/k", `{"by": 1, "for": "1h"}`, "two", 200, `"hold":"k","state":"held"`)
	ask("a replay", "POST", "/carol", `{"by": {"credits": 8, "likes": 1}}`, "left", 200, `"by":{"credits":8,"likes":1},"replayed":true`)

	for name, c := range map[string][3]string{
		"no time":        {"PUT", "/alice/credits/holds/e", `{"by": 1}`},
		"no amount":      {"PUT", "/alice/credits/holds/e", `{"for": "1m"}`},
		"nothing":        {"PUT", "/alice/credits/holds/e", ""},
		"0":              {"PUT", "/alice/credits/holds/e", `{"by": 0, "for": "1m"}`},
		"a fraction":     {"PUT", "/alice/credits/holds/e", `{"by": 1.5, "for": "1m"}`},
		"too much":       {"PUT", "/alice/credits/holds/e", `{"by": 1000000001, "for": "1m"}`},
		"too long":       {"PUT", "/alice/credits/holds/e", `{"by": 1, "for": "721h"}`},
		"no such field":  {"PUT", "/alice/seats/holds/e", `{"by": 1, "for": "1m"}`},
		"no id":          {"PUT", "/alice/credits/holds/", `{"by": 1, "for": "1m"}`},
		"a body":         {"DELETE", "/alice/credits/holds/e", `{}`},
		"less than 0":    {"POST", "/alice/credits/holds/e/settle", `{"by": -1}`},
		"nothing used":   {"POST", "/alice/credits/holds/e/settle", `{}`},
		"another field":  {"POST", "/alice/credits/holds/e/settle", `{"used": 1}`},
		"a text":         {"POST", "/alice/credits/holds/e/settle", `{"by": "1"}`},
		"not an id":      {"GET", "/alice/credits/holds/%0a", ""},
		"of no counter":  {"GET", "/__a__/credits/holds/e", ""},
		"of two amounts": {"PUT", "/alice/credits/holds/e", `{"by": {"credits": 1}, "for": "1m"}`},
	} {
		if a := p.do(t, c[0], c[1], c[2]); a.status != 400 {
			t.Errorf("%s: %d %s, want 400", name, a.status, a.text)
		}
	}
	ask("no such counter", "PUT", "/bob/credits/holds/x", `{"by": 1, "for": "1m"}`, "", 404, "not found")
}

// The id of a hold may be any key, but for those that no path can carry.
func TestIDsOfHolds(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment", "FIELDS=likes")
	p.create(t, "alice")
	for id, inPath := range map[string]string{"a/b": "a%2Fb", "/x": "%2Fx", "a//b": "a%2F%2Fb", "a/../b": "a%2F..%2Fb", "a b": "a%20b", "x/": "x%2F", "settle": "settle", "a?b": "a%3Fb", "...": "..."} {
		held := p.do(t, "POST", "/alice/likes/holds", `{"by": 4, "for": "2m"}`, "Idempotency-Key", id)
		settled := p.do(t, "POST", "/alice/likes/holds/"+inPath+"/settle", `{"by": 3}`)
		if held.status != 200 || settled.status != 200 || settled.body["hold"] != id || settled.body["state"] != "settled" {
			t.Errorf("%q: %d %s, then %d %s", id, held.status, held.text, settled.status, settled.text)
		}
	}
	for _, id := range []string{".", ".."} {
		if a := p.do(t, "POST", "/alice/likes/holds", `{"by": 4, "for": "2m"}`, "Idempotency-Key", id); a.status != 400 || !strings.Contains(a.text, "no id of a hold") {
			t.Errorf("%q: %d %s, want 400", id, a.status, a.text)
		}
	}
}
