package model_test

import (
	"strings"
	"testing"
)

// The conformance of the model, case by case.
func TestConformance(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.cfg.AckWait == 0 {
				c.cfg.AckWait = oddWait
			}
			differ, seen := play(t, c.cfg, c.script)
			if differ != "" {
				t.Fatal(differ)
			}
			all := strings.ReplaceAll(strings.Join(seen, "\n"), "events.x $JS.ACK.EVENTS.", "")
			rest := all
			for s := range strings.SplitSeq(c.see, " | ") {
				i := strings.Index(rest, s)
				if i < 0 {
					t.Fatalf("%q did not come, or not behind what was to come before it:\n%s", s, all)
				}
				rest = rest[i+len(s):]
			}
		})
	}
}
