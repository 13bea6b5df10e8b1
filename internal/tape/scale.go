package tape

import (
	"strconv"
	"strings"
)

// scale lays sequences into cells.
type scale struct {
	first, last uint64
	count       uint64 // of sequences
	cells       int
	wide        int // columns a cell
}

// scaleOf finds a scale for so many columns: a cell a sequence as wide as the numbers above them, or narrower, or several sequences a cell.
func scaleOf(first, last uint64, columns int) scale {
	s := scale{first: first, last: last, count: last - first + 1, wide: 1}
	if s.count == 0 || s.count > uint64(columns) { // 0 is all that there can be
		s.count = max(s.count, last-first)
		s.cells = columns
		return s
	}
	s.cells = int(s.count)
	if digits := len(strconv.FormatUint(last, 10)); s.cells*(digits+1)-1 <= columns {
		s.wide = digits + 1
	} else if s.cells*2-1 <= columns {
		s.wide = 2
	}
	return s
}

// sequences tells which sequences a cell stands for.
func (s scale) sequences(cell int) (from, to uint64) {
	return s.at(cell), s.at(cell+1) - 1
}

// at is where a cell begins: cell*count/cells after the first, without an overflow.
func (s scale) at(cell int) uint64 {
	n := uint64(s.cells)
	return s.first + s.count/n*uint64(cell) + s.count%n*uint64(cell)/n
}

// axis is the line of sequences above the cells: of each, where there is room, or else the first and the last.
func (s scale) axis() string {
	if s.wide > len(strconv.FormatUint(s.last, 10)) {
		var out strings.Builder
		for i := range s.cells {
			out.WriteString(pad(strconv.FormatUint(s.at(i), 10), s.wide))
		}
		return out.String()
	}
	room := s.cells*s.wide - (s.wide - 1)
	first, last := strconv.FormatUint(s.first, 10), strconv.FormatUint(s.last, 10)
	if s.first == s.last || len(first)+1+len(last) > room {
		if len(last) > room {
			return ""
		}
		return strings.Repeat(" ", room-len(last)) + last
	}
	return first + strings.Repeat(" ", room-len(first)-len(last)) + last
}
