package simulation

import "sort"

// counted is a collection whose documents are counted.
type counted struct {
	docs    map[string]map[string]any
	samples map[string][]sample // :: key of a field → what the documents come to for it, over time
	changed int64               // when a document changed last
	waiting map[event]bool      // events that nobody has acknowledged yet :: whether a document was written, and not deleted
	missed  int64               // the newest event that comes late or never
	changes map[string]int      // :: id of a document → writes of the app's that were not seen yet
}

// sample is what documents come to from a time on. It is no value where that is no integer.
type sample struct {
	from  int64
	value any
	ok    bool
}

// of is what documents come to. It reports false where that should be an integer, and is none.
func (f CountedField) of(docs map[string]map[string]any) (value any, ok bool) {
	var sum, numbers float64
	for _, doc := range docs {
		if f.Where != "" && doc[f.Where] != true {
			continue
		}
		switch v := doc[f.Sum].(type) {
		case int64:
			sum, numbers = sum+float64(v), numbers+1
		case float64:
			sum, numbers = sum+v, numbers+1
		}
		if f.Sum == "" {
			sum++
		}
	}
	switch {
	case f.Average && numbers == 0:
		return none, true
	case f.Average:
		return sum / numbers, true
	case f.Double:
		return sum, true
	}
	return int64(sum), true // the whole part
}

// when is the first time, from one on, at which a collection came to a value.
func (of *counted) when(f CountedField, from int64, value any) (at int64, ok bool) {
	samples := of.samples[f.key()]
	n := sort.Search(len(samples), func(i int) bool { return samples[i].from > from })
	if before, ok := of.asOf(f, from); ok && before == value {
		return from, true
	}
	for ; n < len(samples); n++ {
		if samples[n].ok && samples[n].value == value {
			return samples[n].from, true
		}
	}
	return 0, false
}

// asOf is what a collection came to at a time.
func (of *counted) asOf(f CountedField, at int64) (value any, ok bool) {
	samples := of.samples[f.key()]
	n := sort.Search(len(samples), func(i int) bool { return samples[i].from > at })
	if n == 0 {
		return f.of(nil)
	}
	return samples[n-1].value, samples[n-1].ok
}
