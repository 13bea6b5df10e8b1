package main

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"strings"
	"time"
)

// mostNames is how many pages, and how many fields, of an hour are counted one by one. Names come from outside: without a limit, they would decide how much
// memory it takes.
const mostNames = 10_000

// counts are an hour's numbers.
type counts struct {
	from, to      time.Time // of the first and the last event
	events        int64
	views, inputs int64
	pages, fields map[string]int64
	morePages     int64 // views of pages beyond mostNames
	moreFields    int64
	minutes       [60]int64 // views
	copies        int64     // rows of messages that had come already
}

// counter counts hours. It remembers them by the names of their files, which say what is in them.
type counter struct {
	store *store
	hours map[string]counts
}

// count counts the newest hours that have events, or all with limit 0, and tells how many files and bytes they are. It remembers no others.
func (c *counter) count(ctx context.Context, limit int) (hours []counts, all []file, err error) {
	for tries := 0; ; tries++ {
		hours, all, err = c.countOnce(ctx, limit)
		if !errors.Is(err, fs.ErrNotExist) || tries == 10 {
			return hours, all, err
		} // else files were merged meanwhile
	}
}

func (c *counter) countOnce(ctx context.Context, limit int) (hours []counts, all []file, err error) {
	if all, err = c.store.files(); err != nil {
		return nil, nil, err
	}
	parted := byHour(all)
	if limit > 0 && len(parted) > limit {
		parted = parted[len(parted)-limit:]
	}
	known := make(map[string]counts)
	all = nil
	for _, files := range parted {
		var key strings.Builder
		for _, f := range files {
			key.WriteString(f.name + "\n")
		}
		n, ok := c.hours[key.String()]
		if !ok {
			if n, err = c.countHour(ctx, files); err != nil {
				return nil, nil, err
			}
		}
		known[key.String()] = n
		hours, all = append(hours, n), append(all, files...)
	}
	if limit > 0 {
		c.hours = known
	}
	return hours, all, nil
}

func (c *counter) countHour(ctx context.Context, files []file) (n counts, err error) {
	n.pages, n.fields = make(map[string]int64), make(map[string]int64)
	var seen merged
	for r, err := range until(ctx, c.store.merge(files, &seen)) {
		if err != nil {
			return counts{}, err
		}
		n.add(&r)
	}
	n.copies = seen.copies
	return n, nil
}

func (n *counts) add(r *row) {
	at := time.Unix(0, r.Published).UTC()
	if n.events == 0 || at.Before(n.from) {
		n.from = at
	}
	if at.After(n.to) {
		n.to = at
	}
	n.events++
	if r.Page != "" {
		n.views++
		n.minutes[at.Minute()]++
		tally(n.pages, r.Page, &n.morePages)
	} else {
		n.inputs++
		tally(n.fields, r.Field, &n.moreFields)
	}
}

func tally(of map[string]int64, name string, more *int64) {
	if _, ok := of[name]; ok {
		of[name]++
	} else if len(of) < mostNames {
		of[strings.Clone(name)] = 1
	} else {
		*more++
	}
}

// sum adds hours up.
func sum(hours []counts) (all counts) {
	all.pages, all.fields = make(map[string]int64), make(map[string]int64)
	for _, n := range hours {
		if all.events == 0 || n.from.Before(all.from) {
			all.from = n.from
		}
		if n.to.After(all.to) {
			all.to = n.to
		}
		all.events, all.views, all.inputs, all.copies = all.events+n.events, all.views+n.views, all.inputs+n.inputs, all.copies+n.copies
		all.morePages, all.moreFields = all.morePages+n.morePages, all.moreFields+n.moreFields
		for name, times := range maps.All(n.pages) {
			all.pages[name] += times
		}
		for name, times := range maps.All(n.fields) {
			all.fields[name] += times
		}
	}
	return all
}
