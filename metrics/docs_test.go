package metrics

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The table of metrics in the documentation is what the code says. To write it anew: ACKFLOOR_WRITE_DOCS=1 go test ./metrics -run TestTableInDocs
func TestTableInDocs(t *testing.T) {
	const path, begin, end = "../docs/howto-metrics.md", "|---|---|---|---|---|\n", "<!-- end -->"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(b), begin)
	old, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the table is not there")
	}
	var table strings.Builder
	for _, families := range [][]family{counts, states, lags, observed, {buildInfo}} {
		for _, f := range families {
			label := ""
			if f.label != "" {
				label = fmt.Sprintf("`%s`: %s", f.label, strings.Join(f.values, ", "))
			}
			fmt.Fprintf(&table, "| `%s_%s` | %s | %s | %s | %s |\n", namespace, f.name, f.kind, label, f.unit, f.help)
		}
	}
	if old == table.String() {
		return
	}
	if os.Getenv("ACKFLOOR_WRITE_DOCS") != "" {
		if err := os.WriteFile(path, []byte(head+begin+table.String()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("the table in docs/howto-metrics.md differs from the code, which says:\n%s", &table)
}
