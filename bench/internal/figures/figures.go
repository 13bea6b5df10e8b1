// Package figures is what a mode of bench has measured, as data: the tables that it prints, the aims beside them, and the curves to draw. A mode is a file
// of JSON, so that the page can be made again from the same figures.
package figures

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Result is one run of one mode.
type Result struct {
	Mode    string    `json:"mode"`
	Command string    `json:"command"` // that makes it again
	At      time.Time `json:"at"`      // when it began, UTC
	Took    float64   `json:"took"`    // seconds
	Load    float64   `json:"load"`    // processes that ran or wanted to, on average over the minute before; 0 where that is not known
	Machine Machine   `json:"machine"`
	Failed  string    `json:"failed,omitempty"` // why there is no more of it
	Tables  []*Table  `json:"tables"`
}

// Machine is where it ran, and with what.
type Machine struct {
	CPU      string            `json:"cpu"`
	CPUs     int               `json:"cpus"`
	Memory   float64           `json:"memory"` // GiB
	System   string            `json:"system"`
	Go       string            `json:"go"`
	Server   string            `json:"server"` // nats-server
	Versions map[string]string `json:"versions"`
}

// Table is one table with what was aimed at and what is drawn of it. The first column names a row.
type Table struct {
	Title  string     `json:"title"`
	Header []string   `json:"header"`
	Rows   [][]string `json:"rows"`
	Notes  []string   `json:"notes,omitempty"`
	Aims   []Aim      `json:"aims,omitempty"`
	Charts []Chart    `json:"charts,omitempty"`
}

// Aim is a figure that was aimed at.
type Aim struct {
	What  string  `json:"what"`
	Got   float64 `json:"got"`
	Bound string  `json:"bound"` // ">=", "<=" or "<"
	Want  float64 `json:"want"`
	Met   bool    `json:"met"`
}

// Chart is a picture: lines, or bars.
type Chart struct {
	Name  string `json:"name"` // of its file, without an ending
	Title string `json:"title"`
	X     Axis   `json:"x"`
	Y     Axis   `json:"y"`
	Lines []Line `json:"lines,omitempty"`
	Bars  []Bar  `json:"bars,omitempty"`
	Aim   *Level `json:"aim,omitempty"` // a line across
}

// Axis is labelled with its unit.
type Axis struct {
	Label string `json:"label"`
	Log   bool   `json:"log,omitempty"`
}

// Line is a curve through its points.
type Line struct {
	Name string    `json:"name"`
	X    []float64 `json:"x"`
	Y    []float64 `json:"y"`
}

// Add appends a point. What a chart can't show is left out: what is not a number, or infinite.
func (l *Line) Add(x, y float64) {
	if math.IsNaN(y) || math.IsInf(y, 0) {
		return
	}
	l.X, l.Y = append(l.X, x), append(l.Y, y)
}

// Bar is one of several bars with names.
type Bar struct {
	Name string  `json:"name"`
	Y    float64 `json:"y"`
}

// Level is a height with a name.
type Level struct {
	Name string  `json:"name"`
	Y    float64 `json:"y"`
}

// Write writes r into dir, as <mode>.json.
func Write(dir string, r Result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return fmt.Errorf("figures: %s: %w", r.Mode, err)
	}
	return os.WriteFile(filepath.Join(dir, r.Mode+".json"), append(text, '\n'), 0o644)
}

// Read reads all results of dir, those of modes first that are named first. Without any the error is fs.ErrNotExist.
func Read(dir string, modes []string) ([]Result, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("figures: no results in %s: %w", dir, os.ErrNotExist)
	}
	var out []Result
	var faults []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		var r Result
		if err := json.Unmarshal(text, &r); err != nil {
			faults = append(faults, fmt.Errorf("figures: %s: %w", filepath.Base(file), err))
			continue
		}
		out = append(out, r)
	}
	place := func(r Result) int {
		if i := slices.Index(modes, r.Mode); i >= 0 {
			return i
		}
		return len(modes)
	}
	slices.SortStableFunc(out, func(a, b Result) int {
		if d := place(a) - place(b); d != 0 {
			return d
		}
		return strings.Compare(a.Mode, b.Mode)
	})
	return out, errors.Join(faults...)
}
