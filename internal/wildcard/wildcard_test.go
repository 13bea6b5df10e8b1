package wildcard

import "testing"

// Covers decides whether filters overlap and whether a consumer delivers foreign subjects.
func TestCovers(t *testing.T) {
	yes := [][2]string{{"a", "a"}, {">", "a"}, {">", "a.b.c"}, {">", ">"}, {">", "*"}, {"a.>", "a.b"}, {"a.>", "a.b.c"}, {"a.>", "a.*"}, {"a.>", "a.>"}, {"a.>", "a.*.>"}, {"*", "a"}, {"*", "*"}, {"a.*.c", "a.b.c"}, {"*.*", "a.*"}}
	no := [][2]string{{"a", "b"}, {"a", ">"}, {"a", "*"}, {"a.>", "a"}, {"a.>", ">"}, {"a.>", "*.b"}, {"*", "a.b"}, {"*", ">"}, {"a.*", "a"}, {"a.*", "a.b.c"}, {"a.*", "a.>"}, {"a.b", "a.*"}, {"a.b", "a"}, {"a", "a.b"}}
	for _, p := range yes {
		if !Covers(p[0], p[1]) {
			t.Errorf("%q does not cover %q", p[0], p[1])
		}
	}
	for _, p := range no {
		if Covers(p[0], p[1]) {
			t.Errorf("%q covers %q", p[0], p[1])
		}
	}
}

// Overlap is what the server refuses between filters, and what a filter needs with a stream's subjects. It is symmetric.
func TestOverlap(t *testing.T) {
	yes := [][2]string{{"a", "a"}, {">", "a.b"}, {"a.>", "a.b.c"}, {"a.*", "*.b"}, {"a.*.c", "a.b.>"}, {"*", ">"}, {"a.>", "*.b"}}
	no := [][2]string{{"a", "b"}, {"a", "a.b"}, {"a.>", "a"}, {"a.*", "b.*"}, {"a.*", "a.b.c"}, {"a.>", "b.>"}, {"*.x", "a.y"}}
	for _, p := range yes {
		if !Overlap(p[0], p[1]) || !Overlap(p[1], p[0]) {
			t.Errorf("%q and %q do not overlap", p[0], p[1])
		}
	}
	for _, p := range no {
		if Overlap(p[0], p[1]) || Overlap(p[1], p[0]) {
			t.Errorf("%q and %q overlap", p[0], p[1])
		}
	}
}

// Both at once, and each both ways.
func TestBothWays(t *testing.T) {
	for _, c := range []struct {
		a, b              string
		overlap, a2b, b2a bool
	}{
		{"a.b", "a.b", true, true, true}, {"a.*", "a.b", true, true, false}, {"a.>", "a.b.c", true, true, false}, {"a.>", "a", false, false, false},
		{"*.b", "a.*", true, false, false}, {"a.b", "a.c", false, false, false}, {">", "a", true, true, false}, {"a.*.c", "a.>", true, false, true},
		{"a", "a.b", false, false, false}, {"a.*", "a.*", true, true, true}, {"a.>", "a.>", true, true, true}, {"*", ">", true, false, true},
	} {
		if Overlap(c.a, c.b) != c.overlap || Overlap(c.b, c.a) != c.overlap || Covers(c.a, c.b) != c.a2b || Covers(c.b, c.a) != c.b2a {
			t.Errorf("%q %q: overlap %v, covers %v and %v", c.a, c.b, Overlap(c.a, c.b), Covers(c.a, c.b), Covers(c.b, c.a))
		}
	}
}
