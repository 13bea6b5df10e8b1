package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	arrow "github.com/apache/arrow-go/v18/parquet/file"
)

// byArrow reads a file with another implementation of Parquet, that of Apache Arrow.
func byArrow(t *testing.T, path string) (rows []row, columns string) {
	t.Helper()
	f, err := arrow.OpenParquetFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var all []string
	for i := range f.MetaData().Schema.NumColumns() {
		c := f.MetaData().Schema.Column(i)
		all = append(all, c.Name()+" "+c.PhysicalType().String()+" "+c.LogicalType().String())
	}
	for g := range f.NumRowGroups() {
		group := f.RowGroup(g)
		some := make([]row, group.NumRows())
		sequence, published := ints(t, group, 0), ints(t, group, 1)
		subject, page, field, visitor := texts(t, group, 2), texts(t, group, 3), texts(t, group, 4), texts(t, group, 5)
		for i := range some {
			some[i] = row{uint64(sequence[i]), published[i], subject[i], page[i], field[i], visitor[i]}
		}
		rows = append(rows, some...)
	}
	return rows, strings.Join(all, "\n")
}

func ints(t *testing.T, group *arrow.RowGroupReader, column int) []int64 {
	t.Helper()
	chunk, err := group.Column(column)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]int64, group.NumRows())
	for done := 0; done < len(values); {
		_, n, err := chunk.(*arrow.Int64ColumnChunkReader).ReadBatch(int64(len(values)-done), values[done:], nil, nil)
		if err != nil || n == 0 {
			t.Fatalf("column %d: %d of %d values, %v", column, done, len(values), err)
		}
		done += n
	}
	return values
}

// texts reads a column of strings; one that is absent is "".
func texts(t *testing.T, group *arrow.RowGroupReader, column int) []string {
	t.Helper()
	chunk, err := group.Column(column)
	if err != nil {
		t.Fatal(err)
	}
	most := chunk.Descriptor().MaxDefinitionLevel()
	var out []string
	for want := int(group.NumRows()); len(out) < want; {
		values, levels := make([]parquet.ByteArray, want), make([]int16, want)
		n, _, err := chunk.(*arrow.ByteArrayColumnChunkReader).ReadBatch(int64(want-len(out)), values, levels, nil)
		if err != nil || n == 0 {
			t.Fatalf("column %d: %d of %d values, %v", column, len(out), want, err)
		}
		next := 0
		for _, level := range levels[:n] {
			text := ""
			if level == most {
				text = string(values[next])
				next++
			}
			out = append(out, text)
		}
	}
	return out
}

func TestAnotherImplementationReadsTheSame(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var rows []row
	for i := range uint64(230_000) { // three row groups
		r := view(i*3+1, noon.Add(time.Duration(i)*15*time.Millisecond))
		if i%3 == 0 {
			r.Page, r.Field = "", "größe "+r.Page
		}
		if i%5 == 0 {
			r.Visitor = ""
		}
		rows = append(rows, r)
	}
	rows[7].Sequence, rows[7].Published = 1<<63+5, noon.Add(time.Hour-1).UnixNano() // the sequences of a stream have 64 bits, its times nanoseconds
	s.mustWrite(t, rows)
	slices.SortFunc(rows, func(a, b row) int { return a.compare(&b) })
	got, columns := byArrow(t, filepath.Join(s.dir, s.names(t)[0]))
	if !slices.Equal(got, rows) {
		t.Errorf("%d rows are read, want %d; the last is %+v, want %+v", len(got), len(rows), got[len(got)-1], rows[len(rows)-1])
	}
	want := `sequence INT64 Int(bitWidth=64, isSigned=false)
published INT64 Timestamp(isAdjustedToUTC=true, timeUnit=nanoseconds, is_from_converted_type=false, force_set_converted_type=false)
subject BYTE_ARRAY String
page BYTE_ARRAY String
field BYTE_ARRAY String
visitor BYTE_ARRAY String`
	if columns != want {
		t.Errorf("the columns are\n%s\nwant\n%s", columns, want)
	}
	s.holds(t, rows)
}
