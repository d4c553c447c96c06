package layout

import (
	"cmp"
	"errors"
	"fmt"
)

// DefaultProject is an emulator's project if none is named, for commands, functions and libraries. By the
// prefix demo-, Google's emulators and libraries know that it isn't a real project.
const DefaultProject = "demo-counters"

// Place says where the counters of a deployment are. The zero values are the defaults. Packages shards and
// rollup have it as their own. Godoc shows their users no internal type, so shards.Place says the fields again.
type Place struct {
	// by default GOOGLE_CLOUD_PROJECT's, or [DefaultProject] with an emulator, otherwise that of the
	// credentials or the metadata server
	Project  string
	Database string // default "(default)"
	Counters string // path of the counters' documents; default [DefaultPath]
	Fields   string // what is counted: see [ParseFields]; default [DefaultFields]
	Shards   string // id of the collection of a counter's shards; default "shards"
	Hosted   bool   // the counters' documents are the app's own
	// what clients of Firebase's Distributed Counter extension count is taken over; only with Hosted
	Extension bool
}

// Layout is the layout of the documents, without their database.
func (p Place) Layout() (Layout, error) {
	path, err := ParsePath(cmp.Or(p.Counters, DefaultPath))
	if err != nil {
		return Layout{}, fmt.Errorf("path of the counters: %w", err)
	}
	fields, err := ParseFields(cmp.Or(p.Fields, DefaultFields))
	if err != nil {
		return Layout{}, fmt.Errorf("fields that are counted: %w", err)
	}
	l := Layout{Path: path, Shards: cmp.Or(p.Shards, DefaultShards), Hosted: p.Hosted, Extension: p.Extension}
	if l.Extension && !l.Hosted {
		return Layout{}, errors.New("the extension's documents are the app's own: set Hosted")
	}
	if allowed := AllowedShards(l.Shards, fields); allowed != "" {
		return Layout{}, fmt.Errorf("collection of the shards: %s: want %s", l.Shards, allowed)
	}
	if allowed := AllowedFields(path, fields); allowed != "" {
		return Layout{}, fmt.Errorf("fields that are counted: %s: want %s", fields, allowed)
	}
	l.Fields, l.Counted = fields.Split()
	return l, nil
}
