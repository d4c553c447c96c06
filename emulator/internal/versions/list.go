package versions

import (
	"math"
	"slices"
	"sort"
)

// List is what is in an order at one moment. Its reader needs no lock.
type List[T any] struct {
	main, tail []T // both in order, and never changed: most, and what was added since
}

// From is what begins with the first for which it is true, as it is for all behind that.
func (l List[T]) From(is func(T) bool) List[T] {
	return List[T]{l.main[place(l.main, is):], l.tail[place(l.tail, is):]}
}

// Until is what is before the first for which it is true, as it is for all behind that.
func (l List[T]) Until(is func(T) bool) List[T] {
	return List[T]{l.main[:place(l.main, is)], l.tail[:place(l.tail, is)]}
}

func place[T any](in []T, is func(T) bool) int {
	return sort.Search(len(in), func(i int) bool { return is(in[i]) })
}

// Parts are lists that together hold all, each in order.
func (l List[T]) Parts() [][]T { return [][]T{l.main, l.tail} }

// end is the part that the first of the list is in, or the last; nil where the list is empty.
func end[T item[T]](l *List[T], last bool) *[]T {
	switch {
	case len(l.main) == 0 && len(l.tail) == 0:
		return nil
	case len(l.main) == 0:
		return &l.tail
	case len(l.tail) == 0:
		return &l.main
	}
	i, j := 0, 0
	if last {
		i, j = len(l.main)-1, len(l.tail)-1
	}
	if (l.main[i].compare(l.tail[j]) > 0) == last {
		return &l.main
	}
	return &l.tail
}

// End is the first of a list, or the last; false where it is empty.
func End[T item[T]](l *List[T], last bool) (T, bool) {
	part := end(l, last)
	switch {
	case part == nil:
		var none T
		return none, false
	case last:
		return (*part)[len(*part)-1], true
	}
	return (*part)[0], true
}

// Cut takes the first off a list, or the last.
func Cut[T item[T]](l *List[T], last bool) {
	part := end(l, last)
	if last {
		*part = (*part)[:len(*part)-1]
		return
	}
	*part = (*part)[1:]
}

// item is what has a place in an order, and may be dropped.
type item[T any] interface {
	compare(T) int
	gone() bool
}

// ordered is a list to which things are added in any order. A look at it costs no more than what was added since the
// last one, and now and then all of it.
type ordered[T item[T]] struct {
	list    List[T]
	fresh   []T // not in the list yet
	dropped int
}

func (o *ordered[T]) len() int { return len(o.list.main) + len(o.list.tail) + len(o.fresh) - o.dropped }

func (o *ordered[T]) add(t T) { o.fresh = append(o.fresh, t) }

// drop notes that one is gone. It stays for a while.
func (o *ordered[T]) drop() {
	if o.dropped++; o.dropped <= o.len()+16 {
		return
	}
	o.fresh = o.keep(nil, o.fresh)
	o.list = List[T]{main: o.merge(o.list.main, o.list.tail)}
}

// look is the list as it is now. The caller holds the tree's lock for writing, and may keep the list.
func (o *ordered[T]) look() List[T] {
	if len(o.fresh) > 0 {
		slices.SortFunc(o.fresh, T.compare)
		o.list.tail = o.merge(o.list.tail, o.fresh)
		o.fresh = nil
	}
	if len(o.list.tail) > 16 && float64(len(o.list.tail)) > 2*math.Sqrt(float64(len(o.list.main))) {
		o.list = List[T]{main: o.merge(o.list.main, o.list.tail)}
	}
	return o.list
}

// merge makes a list of two, without what is gone.
func (o *ordered[T]) merge(a, b []T) []T {
	out := make([]T, 0, len(a)+len(b))
	for i := range b {
		n := place(a, func(t T) bool { return t.compare(b[i]) > 0 })
		out = o.keep(o.keep(out, a[:n]), b[i:i+1])
		a = a[n:]
	}
	return o.keep(out, a)
}

// keep appends those that are not gone.
func (o *ordered[T]) keep(to, part []T) []T {
	for _, t := range part {
		if t.gone() {
			o.dropped--
			continue
		}
		to = append(to, t)
	}
	return to
}
