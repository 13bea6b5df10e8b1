package tape

import (
	"fmt"
	"strconv"
	"strings"
)

// gap is what stands between columns.
const gap = 2

// column is one of the table of numbers.
type column struct {
	head string
	of   func(d *drawing, c Cursor) string
	text bool // else a number: at the right, and never cut
	keep int  // where there is no room for all, those of the lowest are left out first; consumers stay
}

var columns = []column{
	{"CONSUMER", func(d *drawing, c Cursor) string { return printable(c.Consumer, d.ASCII) }, true, 99},
	{"ACK FLOOR", func(_ *drawing, c Cursor) string { return number(c, c.AckFloor) }, false, 6},
	{"DELIVERED", func(_ *drawing, c Cursor) string { return number(c, c.Delivered) }, false, 7},
	{"OUTSTANDING", func(_ *drawing, c Cursor) string { return number(c, uint64(max(0, c.Outstanding))) + limit(c) }, false, 5},
	{"REDELIVERED", func(_ *drawing, c Cursor) string { return number(c, uint64(max(0, c.Redelivered))) }, false, 3},
	{"UNPROCESSED", func(_ *drawing, c Cursor) string { return number(c, c.Unprocessed) }, false, 8},
	{"PULLS", func(_ *drawing, c Cursor) string { return pulls(c) }, false, 2},
	{"", func(_ *drawing, c Cursor) string { return kind(c) }, true, 4},
	{"FILTER", func(d *drawing, c Cursor) string { return printable(strings.Join(c.Filter, ", "), d.ASCII) }, true, 1},
}

// number is one of a cursor; "?" where none is known.
func number(c Cursor, n uint64) string {
	if c.Error != "" && c.Delivered == 0 {
		return "?"
	}
	return strconv.FormatUint(n, 10)
}

// limit is what may be outstanding.
func limit(c Cursor) string {
	if c.MaxAckPending <= 0 {
		return ""
	}
	return " of " + strconv.Itoa(c.MaxAckPending)
}

func pulls(c Cursor) string {
	if !c.Pull && c.Error == "" {
		return "push"
	}
	return number(c, uint64(max(0, c.WaitingPulls)))
}

// kind says what is unusual about a consumer.
func kind(c Cursor) string {
	var out []string
	if c.Paused {
		out = append(out, "paused")
	}
	if !c.Durable && c.Error == "" {
		out = append(out, "ephemeral")
	}
	return strings.Join(out, ", ")
}

// numbers writes the table. A column of texts that says nothing is left out.
func (d *drawing) numbers() {
	cursors := d.tape.Cursors
	if len(cursors) == 0 {
		if d.tape.Partial == "" {
			d.line("")
			d.words("", "It has no consumers.")
		}
		return
	}
	widths := make([]int, len(columns))
	for i, col := range columns {
		for _, c := range cursors {
			widths[i] = max(widths[i], width(col.of(d, c)))
		}
		if widths[i] > 0 {
			widths[i] = max(widths[i], len(col.head))
		}
	}
	d.fit(widths)
	d.line("")
	for row := range len(cursors) + 1 {
		var line strings.Builder
		for i, col := range columns {
			if widths[i] == 0 {
				continue
			}
			text := col.head
			if row > 0 {
				text = col.of(d, cursors[row-1])
			}
			if line.Len() > 0 {
				line.WriteString(strings.Repeat(" ", gap))
			}
			if col.text {
				line.WriteString(pad(d.cut(text, widths[i]), widths[i]))
			} else {
				text = short(text, widths[i])
				line.WriteString(strings.Repeat(" ", widths[i]-len(text)) + text)
			}
		}
		code := ""
		if row == 0 {
			code = boldly
		}
		d.line(d.colour(code, strings.TrimRight(line.String(), " ")))
	}
}

// fit makes the widths small enough for a line: the last column, of filters, and names are narrowed to some width, then columns are left out, those that tell least first.
func (d *drawing) fit(widths []int) {
	total := func() int {
		sum := -gap
		for _, w := range widths {
			if w > 0 {
				sum += w + gap
			}
		}
		return sum
	}
	narrow := func(i, least int) {
		if over := total() - d.Width; over > 0 && widths[i] > least {
			widths[i] = max(least, widths[i]-over)
		}
	}
	name, filter := 0, len(columns)-1
	for keep := 0; ; keep++ {
		before := widths[name]
		narrow(filter, 12)
		narrow(name, max(12, d.Width/3))
		if total() <= d.Width {
			return
		}
		widths[name] = before // less is to be shown: the name may be wide again
		if keep == 8 {
			break
		}
		for i, c := range columns {
			if c.keep == keep {
				widths[i] = 0
			}
		}
	}
	narrow(name, 5)
	for i, c := range columns { // what is left is the one number that stays to the end
		if c.keep == 8 {
			narrow(i, len(c.head))
		}
	}
}

// short makes a number that is too wide one of two digits, so that it is not taken for another.
func short(s string, w int) string {
	if len(s) <= w {
		return s
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return s[:w]
	}
	return fmt.Sprintf("%.1e", n)
}
