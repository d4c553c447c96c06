package simulation

import "slices"

// commands are what is known of a counter's commands that must not be applied twice. Each is one commit, which writes
// document and base, and after which the total is what it says.
type commands struct {
	pending []*call // of which nobody knows the end
	asked   map[Kind]int
	refused map[Kind]int
	applied []*applied
}

// applied is a commit that may be of a command.
type applied struct {
	entry        int
	kind         Kind
	imports      bool
	value, added int64 // of an import
	told         bool  // to one of the callers
}

// of counts the commits that are of commands of a kind.
func (k *commands) of(kind Kind) (n int) {
	for _, a := range k.applied {
		if a.kind == kind {
			n++
		}
	}
	return n
}

// tell finds a commit that nobody was told of yet, and tells it.
func (k *commands) tell(is func(*applied) bool) bool {
	for _, a := range k.applied {
		if !a.told && is(a) {
			a.told = true
			return true
		}
	}
	return false
}

// beginCommand is the begin of a command.
func (c *checker) beginCommand(k *call) {
	n := &c.counter(k.Counter).commands
	if n.asked == nil {
		n.asked, n.refused = map[Kind]int{}, map[Kind]int{}
	}
	n.asked[k.Kind]++
	n.pending = append(n.pending, k)
}

// endCommand checks what the caller of a command was told.
func (c *checker) endCommand(k *call, e End) {
	n := &c.counter(k.Counter).commands
	if e.Outcome != Unknown {
		n.pending = slices.DeleteFunc(n.pending, func(p *call) bool { return p == k })
	}
	switch {
	case e.Outcome == Refused:
		if n.refused[k.Kind]++; n.of(k.Kind) > n.asked[k.Kind]-n.refused[k.Kind] {
			c.fail("%s of %q was refused (%s), and is applied", k.Kind, k.Counter, e.Detail)
		}
	case e.Outcome != OK, k.Kind == Elsewhere, c.older && k.Asked: // an instance that doesn't know the field leaves it as it is
	case k.Kind == Import:
		c.endImport(k, e)
	case !n.tell(func(a *applied) bool {
		return a.entry > k.entry && (a.kind == k.Kind || a.kind == "") && (k.Kind != Rebase || a.value == k.To)
	}):
		c.fail("%s of %q was acknowledged, and is in no commit", k.Kind, k.Counter)
	}
}

// loses has the document show what it held at any moment so far, with what a base held that is lost.
func (k *counter) loses(lost *beyond) {
	for i := range k.series {
		k.series[i].lost = lost
	}
}

// based finds out what a commit has left of what the counter holds beyond its shards. Only a command changes that, and
// then the total is what it says.
func (c *checker) based(id string, k *counter, d *deed, before *Document) {
	taken, takes := k.source.taken, k.source.takes
	k.source.taken, k.source.takes = 0, false
	if k.base != nil || d.made || d.gone {
		k.lost = nil
	}
	if d.made || d.gone {
		k.loses(nil)
	}
	switch {
	case k.base == nil || k.ending():
		if d.hadBase && k.base == nil && k.byHand > 0 && k.doc != nil {
			k.lost = k.beyond
			k.loses(k.lost)
		}
		if d.hadBase || d.marked {
			k.beyond, k.aside = holding(guess{}), 0
		}
		if d.doc && k.doc != nil && k.byHand > 0 { // which somebody has deleted since the command read it
			c.leavesBase(k)
		}
		return
	case d.made && k.doc != nil && k.doc.Bare: // it shows nothing of the field
	case d.base && d.doc && k.doc != nil:
		c.edited(id, k, d, before, taken, takes)
	case d.doc && k.doc != nil:
		c.leavesBase(k)
	}
	if takes && (!d.base || !d.doc || k.doc == nil) {
		c.fail("a commit takes %d off the extension's shards of %q, and imports nothing", taken, id)
	}
}

// leavesBase finds out which commands a commit to the document alone may be of: one that leaves the base as it is doesn't
// show in it.
func (c *checker) leavesBase(k *counter) {
	for _, cmd := range k.commands.pending {
		if cmd.Kind != Import && cmd.To == k.doc.Total {
			k.commands.applied = append(k.commands.applied, &applied{entry: c.at, value: cmd.To})
		}
	}
}

// edited finds out which command a commit to document and base may be of.
func (c *checker) edited(id string, k *counter, d *deed, before *Document, taken int64, takes bool) {
	next := map[guess]bool{}
	var of []*applied
	total, first := k.doc.Total, len(k.series)-1
	fits := func(g guess, from int, a *applied) {
		if !slices.ContainsFunc(k.series[from:], func(p point) bool { return p.vague || g.open || p.with(g) == total }) {
			return
		}
		if next[g] = true; a != nil && !slices.ContainsFunc(of, func(o *applied) bool { return o.kind == a.kind && o.value == a.value && o.added == a.added }) {
			of = append(of, a)
		}
		first = min(first, from)
	}
	if d.made && before == nil {
		if _, ok := c.startedFrom(id, k); ok {
			made := k.now().beside(guess{}, total)
			guesses := []guess{made}
			if d.hadBase { // which says what was imported before the document went
				for g := range k.beyond.guesses {
					g.n, g.open = made.n, made.open
					guesses = append(guesses, g)
				}
			}
			k.beyond, d.edited, k.from = holding(guesses...), true, len(k.series)-1
			return
		}
	}
	for g := range k.beyond.guesses {
		same := before != nil && before.Total == total
		if c.live && before != nil {
			if same && !takes { // it leaves the field as it is
				next[g] = true
			}
			tookOver(g, before, taken, func(g guess) { fits(g, k.from, nil) })
			continue
		}
		keeps := []guess{g}
		if c.inPlace && before != nil && !g.took {
			g.replaced = before.Total
			if keeps = append(keeps, g); !d.hadBase && !same {
				keeps = keeps[1:]
			}
		}
		for _, g := range keeps {
			switch {
			case takes: // by an import
			case same:
				next[g] = true
			default:
				fits(g, k.from, nil)
			}
		}
	}
	plain := len(next) > 0 || k.stale && !takes
	for _, cmd := range k.commands.pending {
		if c.now.Sub(cmd.at) > longestCommand {
			continue
		}
		for g := range k.beyond.guesses {
			switch cmd.Kind {
			case Reset, ResetMembers, Rebase:
				if total != cmd.To && !(c.older && cmd.Asked && before != nil && before.Total == total) {
					continue
				}
				for _, p := range k.series[cmd.from:] {
					g = p.beside(g, cmd.To)
					g.replaced, g.took = 0, g.took || c.live
					if total != cmd.To { // an older revision leaves what the field shows, which it may have by another name
						next[g] = true
						continue
					}
					fits(g, cmd.from, &applied{kind: cmd.Kind, value: cmd.To})
				}
			case Elsewhere: // of another field: it keeps what the document shows of all
				if c.inPlace && !d.hadBase && before != nil {
					g.n, g.replaced, g.adopted = before.Total, 0, before.Total
					fits(g, cmd.from, nil)
				}
			case Import:
				c.imported(k, d, before, cmd, g, taken, takes, fits)
			}
		}
	}
	switch {
	case len(next) == 0 && (!k.stale || c.live && takes):
		c.fail("a commit sets the total of %q to %d, and what it holds beyond its shards: nobody has asked for that", id, total)
		return
	case len(next) == 0:
		return
	}
	k.beyond = &beyond{next}
	if len(of) > 0 {
		d.edited, k.from = !plain, first
	}
	for _, a := range of {
		if a.entry = c.at; plain || len(of) > 1 { // it may be of none of them
			a.kind = ""
		}
		k.commands.applied = append(k.commands.applied, a)
		if n := &k.commands; a.kind != "" && n.of(a.kind) > n.asked[a.kind]-n.refused[a.kind] {
			c.fail("%d commands of %q are applied, each a %s; %d were asked for, and %d of these refused", n.of(a.kind), id, a.kind, n.asked[a.kind], n.refused[a.kind])
		}
	}
}

// tookOver tries what a roll-up may have made of a guess that takes over what clients of the extension have added. The
// first one goes on from the number that the document shows, unless the document says that this is an earlier total.
func tookOver(g guess, before *Document, taken int64, fits func(guess)) {
	adopts := []int64{0}
	if !g.took {
		adopts = append(adopts, before.Total)
	}
	for _, adopted := range adopts {
		now := g
		now.n, now.took, now.adopted = wideOf(g.n).and(wideOf(taken+adopted)).int64(), true, g.adopted+adopted
		fits(now)
	}
}

// imported tries what an import may have made of a guess.
func (c *checker) imported(k *counter, d *deed, before *Document, cmd *call, g guess, taken int64, takes bool, fits func(guess, int, *applied)) {
	switch {
	case c.inPlace && !d.hadBase && !takes && before != nil: // it keeps what the document shows
		g.n, g.replaced, g.adopted = before.Total, 0, before.Total
		fits(g, cmd.from, nil)
	case c.inPlace:
		alls := []int64{taken}
		if !g.took {
			if alls[0] += g.replaced; before != nil && g.replaced == 0 { // or it is replaced by this very commit
				alls = append(alls, taken+before.Total)
			}
		}
		for _, all := range alls {
			now := g
			now.n, now.took, now.imported = wideOf(g.n).and(wideOf(all)).int64(), true, g.imported+all
			now.adopted += all - taken
			fits(now, cmd.from, &applied{kind: Import, imports: true, added: all})
		}
	case !takes:
		for _, value := range k.source.since(cmd.newest) {
			now, added := g, value-g.imported
			now.n, now.took, now.imported = wideOf(g.n).and(wideOf(added)).int64(), true, value
			fits(now, cmd.from, &applied{kind: Import, imports: true, value: value, added: added})
		}
	}
}
