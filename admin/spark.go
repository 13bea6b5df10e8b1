package admin

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// spark is a small curve: an SVG of 300 by 40 that is stretched to its place.
type spark struct {
	Line, Area string // paths
	Now, Most  string // the last value and the highest
	Label      string // the curve in words
}

const (
	sparkWidth, sparkHeight = 300.0, 40.0
	noValue                 = "–"
)

// sparkOf draws values, of which nil are not known: there the line has a gap. what goes into the words.
func sparkOf(values []*float64, what string, text func(float64) string) spark {
	most, known := 0.0, 0
	for _, v := range values {
		if v != nil {
			most, known = max(most, *v), known+1
		}
	}
	s := spark{Now: noValue, Most: text(most)}
	if n := len(values); n > 0 && values[n-1] != nil {
		s.Now = text(*values[n-1])
	}
	if known == 0 {
		s.Most, s.Label = noValue, what+": nothing is known yet"
		return s
	}
	s.Label = fmt.Sprintf("%s over the last five minutes: now %s, at most %s", what, s.Now, s.Most)
	var line, area strings.Builder
	x := func(i int) string {
		return strconv.FormatFloat(sparkWidth*float64(i)/float64(len(values)-1), 'f', 1, 64)
	}
	for i := 0; i < len(values); i++ {
		begin := i
		for ; i < len(values) && values[i] != nil; i++ {
			y := sparkHeight - 2
			if most > 0 {
				y -= (sparkHeight - 5) * *values[i] / most
			}
			verb := " L"
			if i == begin {
				verb = " M"
				fmt.Fprintf(&area, " M%s %g", x(i), sparkHeight)
			}
			fmt.Fprintf(&line, "%s%s %.1f", verb, x(i), y)
			fmt.Fprintf(&area, " L%s %.1f", x(i), y)
		}
		if i == begin+1 {
			line.WriteString(" h.01") // one point alone is a dot
		}
		if i > begin {
			fmt.Fprintf(&area, " L%s %g Z", x(i-1), sparkHeight)
		}
	}
	s.Line, s.Area = strings.TrimSpace(line.String()), strings.TrimSpace(area.String())
	return s
}

// rate is a number of messages a second as people read it.
func rate(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x < 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return thousands(uint64(math.Round(x)))
}
