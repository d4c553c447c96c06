package functions

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/firestore-counters/counters/shards"
)

// Of texts that are JSON, notUnicode refuses just those in which encoding/json replaces something.
func TestNotUnicode(t *testing.T) {
	t.Parallel()
	pieces := []string{"", `\\`, `\u`, `d83d`, `DE00`, `dc00`, `0041`, `a`, `\"`, `\n`}
	texts := []string{""}
	for range 5 {
		var longer []string
		for _, text := range texts {
			for _, piece := range pieces {
				longer = append(longer, text+piece)
			}
		}
		texts = longer
	}
	refused := 0
	for _, text := range texts {
		body := []byte(`"` + text + `"`)
		err := notUnicode(body) // which may be no JSON
		var read string
		if json.Unmarshal(body, &read) != nil {
			continue
		}
		if replaced := strings.ContainsRune(read, utf8.RuneError); replaced != (err != nil) {
			t.Fatalf("%s: %v, and it is read as %q", body, err, read)
		} else if replaced {
			refused++
		}
	}
	if refused < 1000 {
		t.Errorf("%d of %d texts are refused", refused, len(texts))
	}
	for _, text := range []string{`\`, `\u`, `\ud83`, `\ud83d`, `\ud83d\`, `\ud83d\ude0`} { // to their ends
		_ = notUnicode([]byte(text))
	}
}

// An object that names more than any counter has fields is read no further: each name takes memory and time.
func TestObjectsHaveABound(t *testing.T) {
	t.Parallel()
	var fields []string
	for n := range maxNames + 1 {
		fields = append(fields, fmt.Sprintf(`"f%d":1`, n))
	}
	if _, err := decodeBy([]byte(`{"by":{`+strings.Join(fields[1:], ",")+`}}`), 10); err != nil {
		t.Errorf("%d names: %v", maxNames, err)
	}
	if _, err := decodeBy([]byte(`{"by":{`+strings.Join(fields, ",")+`}}`), 10); !hasStatus(err, http.StatusBadRequest) {
		t.Errorf("one name more: %v", err)
	}
}

// What decodeBy takes, encoding/json reads the same way.
func FuzzDecodeBy(f *testing.F) {
	for _, body := range []string{``, `{}`, `{"by":5}`, ` {"by" : -2 } `, `{"by":null}`, `{"by":1.0}`, `{"by":1e3}`, `{"by":0.99999999999999999999}`, `{"by":12.50e1}`, `{"by":1e-99999999999}`, `{"by":"5"}`, `{"By":5}`,
		`{"by":5,"by":6}`, `{"by":{"likes":1,"views":-3}}`, `{"by":{}}`, `{"by":{"likes":0}}`, `{"by":{"likes":{}}}`, `{"by":5}{}`, `{"by":9223372036854775808}`, `{"b\u0079":7}`, `{"by":[[[[`, "\xff"} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		const most = 1_000_000_000
		by, err := decodeBy(body, most)
		if err != nil {
			if problemOf(err).Status != 400 {
				t.Errorf("%q: %v is answered %d, want 400", body, err, problemOf(err).Status)
			}
			return
		}
		var want struct{ By json.RawMessage }
		if len(body) > 0 {
			if err := json.Unmarshal(body, &want); err != nil {
				t.Errorf("%q: taken, and not JSON: %v", body, err)
			}
		}
		sameAmount(t, body, by, want.By, most)
	})
}

// sameAmount fails unless an amount is what JSON has for it, and within bounds.
func sameAmount(t *testing.T, body []byte, got amount, raw json.RawMessage, most int64) {
	t.Helper()
	want := amount{by: 1}
	var number json.Number
	var fields map[string]json.Number
	if raw != nil && json.Unmarshal(raw, &number) == nil {
		want.by = wholeNumber(t, body, number)
	} else if raw != nil {
		if err := json.Unmarshal(raw, &fields); err != nil {
			t.Errorf("%q: taken, and neither an integer nor an object of them: %v", body, err)
		}
		want.fields = map[string]int64{}
		for name, number := range fields {
			want.fields[name] = wholeNumber(t, body, number)
		}
	}
	if diff := cmp.Diff(want.of("c"), got.of("c")); diff != "" {
		t.Errorf("%q: (-want +got)\n%s", body, diff)
	}
	if len(got.of("c")) == 0 {
		t.Errorf("%q: nothing is added", body)
	}
	for _, i := range got.of("c") {
		if i.By == 0 || i.By > most || i.By < -most {
			t.Errorf("%q: %+v", body, i)
		}
	}
}

// wholeNumber is a number that is an integer, whether it has a point or an exponent or not.
func wholeNumber(t *testing.T, body []byte, number json.Number) int64 {
	t.Helper()
	exponent := strings.TrimLeft(string(number), "-0123456789.")
	if n, err := strconv.Atoi(strings.TrimLeft(exponent, "eE")); exponent != "" && (err != nil || n < -1000 || n > 1000) {
		t.Skip("big.Rat would write it out")
	}
	exactly, ok := new(big.Rat).SetString(string(number))
	if !ok || !exactly.IsInt() || !exactly.Num().IsInt64() {
		t.Errorf("%q: taken, and %s is no integer of 64 bits", body, number)
		return 0
	}
	return exactly.Num().Int64()
}

// A number is an integer by its digits, whichever way they are written, and not by a double that is
// near it. What is not taken costs no more than its own length.
func TestNumbersAreTakenByTheirDigits(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("0", 10_000)
	for number, want := range map[string]int64{ // 0: refused
		"1": 1, "-1": -1, "1.0": 1, "-1.000": -1, "1e2": 100, "1E+2": 100, "-990e-1": -99, "0.5e1": 5, "12.50e1": 125, "100e-2": 1,
		"9007199254740993": 9007199254740993, "9007199254740993.0": 9007199254740993, "900719925474099.3e1": 9007199254740993, "-9223372036854775807e0": -9223372036854775807,
		"1" + zeros + "e-10000": 1, "0." + zeros + "1e10001": 1, "1." + zeros: 1,

		"0.99999999999999999999": 0, "999999999.99999999": 0, "1.00000000000000000001": 0, "-0.99999999999999999999": 0, "9007199254740992.5": 0,
		"1.5": 0, "1e-1": 0, "1e-400": 0, "10000e-5": 0, "0": 0, "-0": 0, "0.0": 0, "0e5": 0, "-0.0e-5": 0, "0e99999999999999999999": 0,
		"9223372036854775808": 0, "-9223372036854775808": 0, "-9223372036854775808.0": 0, "9223372036854775808.0": 0, "1e19": 0, "1e400": 0,
		"1e2147483648": 0, "1e1000000000": 0, "1e99999999999999999999": 0, "1e-99999999999999999999": 0, "1" + zeros: 0, "1." + zeros + "1": 0,
	} {
		got, err := decodeBy([]byte(`{"by":`+number+`}`), math.MaxInt64)
		if want == 0 {
			if err == nil || problemOf(err).Status != 400 {
				t.Errorf("%.40s: %+v, %v; want 400", number, got, err)
			} else if len(err.Error()) > 200 {
				t.Errorf("%.40s: the answer has %d bytes", number, len(err.Error()))
			}
		} else if err != nil || got.by != want {
			t.Errorf("%.40s: %+v, %v; want %d", number, got, err, want)
		}
	}
}

func FuzzDecodeIncrements(f *testing.F) {
	for _, body := range []string{``, `{}`, `{"increments":[]}`, `{"increments":[{"counter":"a","by":1}]}`, `{"increments":[{"counter":"a"},{"counter":"b","by":-5}]}`,
		`{"increments":[{"by":1}]}`, `{"increments":[{"counter":null}]}`, `{"increments":{}}`, `{"increments":[[]]}`, `{"increments":null}`,
		`{"increments":[{"counter":"\ud800"}]}`, `{"increments":[{"counter":"a","counter":"b"}]}`,
		`{"increments":[{"counter":"red/a","by":{"likes":1,"views":-2}},{"counter":"red/a","by":{"likes":3}},{"counter":"red/a"}]}`, `{"increments":[{"counter":"a","by":{}}]}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		const most = 1_000_000_000
		increments, err := decodeIncrements(body, most, "total")
		if err != nil {
			if problemOf(err).Status != 400 {
				t.Errorf("%q: %v is answered %d, want 400", body, err, problemOf(err).Status)
			}
			return
		}
		if len(increments) == 0 || len(increments) > shards.MaxIncrements {
			t.Errorf("%q: %d increments", body, len(increments))
		}
		var want struct {
			Increments []struct {
				Counter string
				By      json.RawMessage
			}
		}
		if err := json.Unmarshal(body, &want); err != nil || len(want.Increments) != len(increments) {
			t.Fatalf("%q: %d increments, want %d, %v", body, len(increments), len(want.Increments), err)
		}
		for n, i := range increments {
			if strings.Contains(i.Counter, "\uFFFD") && !strings.Contains(string(body), "\uFFFD") {
				t.Errorf("%q: the id %q is not what was asked for", body, i.Counter)
			}
			if i.Counter != want.Increments[n].Counter {
				t.Errorf("%q: %q, want %q", body, i.Counter, want.Increments[n].Counter)
			}
			sameAmount(t, body, i.By, want.Increments[n].By, most)
		}
	})
}

func FuzzAddressAndKey(f *testing.F) {
	f.Add("1.1.1.1, 2.2.2.2", 1, "k")
	f.Add("[2001:db8::1%eth0]:80", 0, "k")
	f.Add(",", 2, "")
	f.Fuzz(func(t *testing.T, forwarded string, proxies int, key string) {
		r := requestWith(forwarded, key)
		if address := addressOf(r, proxies&7); strings.Contains(address, ",") {
			t.Errorf("%q: the address is %q", forwarded, address)
		}
		if k, err := keyOf(&request{Request: r}); err == nil && k.Value != key {
			t.Errorf("%q: the key is %q", key, k.Value)
		}
	})
}

func requestWith(forwarded, key string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/a", nil)
	r.Header["X-Forwarded-For"] = []string{forwarded}
	r.Header["Idempotency-Key"] = []string{key}
	return r
}
