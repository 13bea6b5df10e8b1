package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
)

// A page that is written by hand has places for figures: <!-- figures --> or <!-- figures: name -->, up to <!-- /figures -->.
var place = regexp.MustCompile(`(?s)(<!-- figures(?:: ([a-z]+))? -->\n).*?(<!-- /figures -->)`)

// blocksOf is what goes into the places, by name; "" is the main table.
func blocksOf(results []figures.Result) map[string]string {
	blocks := map[string]string{"": mainTable(results), "calculated": calculated(results)}
	for name, at := range map[string][2]string{
		"processes": {"growth", "Processes"}, "slots": {"growth", "Slots"}, "trips": {"scaling", "A long way"}, "partitions": {"scaling", "Partitions"},
		"replicas": {"scaling", "Replicas"}, "far": {"scaling", "Leaf nodes"},
	} {
		text := "Not measured yet.\n"
		if t := tableOf(results, at[0], at[1]); t != nil {
			var b strings.Builder
			b.WriteString(t.Title + ":\n\n")
			bare := *t
			bare.Title = ""
			writeTable(&b, &bare)
			text = strings.TrimRight(b.String(), "\n") + "\n"
		}
		blocks[name] = text
	}
	return blocks
}

// fillIn writes blocks into the places of a file. Without a file it does nothing; a place with a name that there is no block for is an error.
func fillIn(file string, blocks map[string]string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var unknown error
	filled := place.ReplaceAllStringFunc(string(text), func(at string) string {
		m := place.FindStringSubmatch(at)
		block, ok := blocks[m[2]]
		if !ok {
			unknown = fmt.Errorf("%s has a place for figures %q, which there are none of", file, m[2])
			return at
		}
		return m[1] + "\n" + block + "\n" + m[3]
	})
	if unknown != nil {
		return unknown
	}
	if filled == string(text) {
		return nil
	}
	return os.WriteFile(file, []byte(filled), 0o644)
}
