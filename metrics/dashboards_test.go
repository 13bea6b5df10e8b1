package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	rulesPath     = "dashboards/ackfloor.rules.yml"
	dashboardPath = "dashboards/ackfloor.json"
)

// panel is a panel of the dashboard, as far as it is checked.
type panel struct {
	Type, Title, Description string
	Datasource               struct{ UID string }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		Expr, LegendFormat string
		Datasource         struct{ UID string }
	}
}

type dashboard struct {
	ID            *int // of an installation; nil in a file that is imported
	UID, Title    string
	SchemaVersion int
	Panels        []panel
	Templating    struct {
		List []struct{ Name, Type, Definition string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	b, err := os.ReadFile(dashboardPath)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	if d.ID != nil || d.UID == "" || d.Title == "" || d.SchemaVersion < 42 {
		t.Errorf("id %v, uid %q, title %q, schema %d: it can't be imported as it is", d.ID, d.UID, d.Title, d.SchemaVersion)
	}
	return d
}

// known is what the tables of this package say of a metric's name, with the suffixes that a histogram has; nil where there is none of that name.
func known(name string) (f *family, labels []string) {
	labels = []string{"stream_name", "consumer_name", "job", "instance", "namespace"} // the last three are those of a target
	for _, table := range [][]family{counts, states, lags, observed, {buildInfo}} {
		for _, of := range table {
			full := namespace + "_" + of.name
			if name == full || of.kind == histo && slices.Contains([]string{full + "_bucket", full + "_sum", full + "_count"}, name) {
				f = &of
			}
		}
	}
	switch {
	case f == nil:
		return nil, nil
	case f.label != "":
		labels = append(labels, f.label)
	}
	if f.kind == histo {
		labels = append(labels, "le", "kind")
	}
	if f.name == buildInfo.name {
		labels = append(labels, "version", "goversion")
	}
	return f, labels
}

var (
	selector = regexp.MustCompile(`\b(ackfloor_\w+)(\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|on|ignoring|without)\s*\(([^)]*)\)`)
	counted  = regexp.MustCompile(`\b(rate|increase)\((ackfloor_\w+)`)
	recorded = regexp.MustCompile(`\bconsumer:\w+:\w+`)
)

// checkExpression compares a query with the tables: its metrics, their labels, the values of those, and whether rates are of counters. It returns the metrics.
func checkExpression(t *testing.T, where, expr string) (names []string) {
	t.Helper()
	rest := recorded.ReplaceAllString(expr, "")
	var all []string // labels, of any of the metrics
	for _, m := range selector.FindAllStringSubmatch(rest, -1) {
		f, labels := known(m[1])
		if f == nil {
			t.Errorf("%s: there is no metric %s", where, m[1])
			continue
		}
		names, all = append(names, f.name), append(all, labels...)
		for _, l := range matcher.FindAllStringSubmatch(m[3], -1) {
			if !slices.Contains(labels, l[1]) {
				t.Errorf("%s: %s has no label %s", where, m[1], l[1])
			}
			for value := range strings.SplitSeq(l[3], "|") {
				if l[1] == f.label && !slices.Contains(f.values, value) {
					t.Errorf("%s: %s is never %q, of %s", where, l[1], value, m[1])
				}
			}
		}
		if f.kind == counter && !strings.Contains(rest, "rate("+m[1]) && !strings.Contains(rest, "increase("+m[1]) {
			t.Errorf("%s: %s is a counter, and is read as it is", where, m[1])
		}
	}
	for _, m := range counted.FindAllStringSubmatch(rest, -1) {
		if f, _ := known(m[2]); f != nil && f.kind == gauge {
			t.Errorf("%s: a %s of %s, which is a gauge", where, m[1], m[2])
		}
	}
	for _, m := range grouping.FindAllStringSubmatch(rest, -1) {
		for l := range strings.SplitSeq(m[1], ",") {
			if l = strings.TrimSpace(l); len(all) > 0 && !slices.Contains(all, l) {
				t.Errorf("%s: grouped by %q, which none of its metrics has", where, l)
			}
		}
	}
	return names
}

// What the dashboard asks for is what there is, all of it is on the dashboard, and each panel says what it shows and in which unit.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	var shown []string
	titles := make(map[string]bool)
	for _, p := range d.Panels {
		if titles[p.Title] || p.Title == "" {
			t.Errorf("a panel %q is there twice, or has no title", p.Title)
		}
		titles[p.Title] = true
		if p.Type == "row" {
			continue
		}
		if len(p.Description) < 40 || p.FieldConfig.Defaults.Unit == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("panel %q: description %q, unit %q, data source %q, %d queries", p.Title, p.Description, p.FieldConfig.Defaults.Unit, p.Datasource.UID, len(p.Targets))
		}
		for _, q := range p.Targets {
			shown = append(shown, checkExpression(t, "panel "+p.Title, q.Expr)...)
			for _, m := range selector.FindAllStringSubmatch(q.Expr, -1) {
				if !strings.Contains(m[3], `stream_name=~"$stream_name", consumer_name=~"$consumer_name"`) {
					t.Errorf("panel %q: %s is of every consumer", p.Title, m[1])
				}
			}
			if q.Datasource.UID != "${datasource}" || strings.Contains(q.Expr, "[5m]") || recorded.MatchString(q.Expr) {
				t.Errorf("panel %q: %q from %q: it takes the chosen data source, the range of the screen, and no recording rules", p.Title, q.Expr, q.Datasource.UID)
			}
		}
	}
	for _, row := range []string{"Health", "Progress", "Failures", "Resources"} {
		if !titles[row] {
			t.Errorf("there is no row %s", row)
		}
	}
	for _, table := range [][]family{counts, states, lags, observed, {buildInfo}} {
		for _, f := range table {
			if !slices.Contains(shown, f.name) {
				t.Errorf("%s_%s is on no panel", namespace, f.name)
			}
		}
	}
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Type+" "+v.Name)
		checkExpression(t, "variable "+v.Name, v.Definition)
	}
	if want := []string{"datasource datasource", "query stream_name", "query consumer_name"}; !slices.Equal(variables, want) {
		t.Errorf("the variables are %v, want %v", variables, want)
	}
}

var (
	ruleStart = regexp.MustCompile(`(?m)^      - (record|alert): (\S+)\n`)
	ruleExpr  = regexp.MustCompile(`(?m)^        expr: \|-\n((?:          .*\n)+)`)
	ruleFor   = regexp.MustCompile(`(?m)^        for: (\d+)m$`)
	ruleLabel = regexp.MustCompile(`\$labels\.(\w+)`)
)

// What the rules ask for is what there is, or what they record. Each alert says how bad it is, what it means and where to read on; there is what to read, and a test of it.
func TestAlertRules(t *testing.T) {
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	text, tests, howto := read(rulesPath), read("dashboards/ackfloor.rules.test.yml"), read("../docs/howto-alerts.md")
	starts := ruleStart.FindAllStringSubmatchIndex(text, -1)
	var records, used, alerts []string
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		kind, name, body := text[at[2]:at[3]], text[at[4]:at[5]], text[at[1]:end]
		expr := ruleExpr.FindStringSubmatch(body)
		if expr == nil {
			t.Errorf("%s has no expression that is found", name)
			continue
		}
		checkExpression(t, name, expr[1])
		used = append(used, recorded.FindAllString(expr[1], -1)...)
		if kind == "record" {
			records = append(records, name)
			continue
		}
		alerts = append(alerts, name)
		severity, after := "Warning, ", "at once"
		if strings.Contains(body, "severity: critical\n") {
			severity = "Critical, "
		}
		if m := ruleFor.FindStringSubmatch(body); m != nil {
			after = "after " + m[1] + " minute"
		}
		anchor := "https://github.com/ackfloor/ackfloor/blob/main/docs/howto-alerts.md#" + strings.ToLower(name)
		for what, ok := range map[string]bool{
			"a severity":         strings.Contains(body, "severity: critical\n") || strings.Contains(body, "severity: warning\n"),
			"a summary":          strings.Contains(body, "summary: '{{ $labels.consumer_name }} on {{ $labels.stream_name }}"),
			"a description":      strings.Contains(body, "description: >-\n"),
			"a place to read on": strings.Contains(body, "runbook_url: "+anchor+"\n"),
			"a section there, with its severity and time": strings.Contains(howto, "\n### "+name+"\n\n"+severity+after),
			"a test that it fires":                        strings.Contains(tests, `alertname="`+name+`", alertstate="firing"`),
		} {
			if !ok {
				t.Errorf("%s has not %s", name, what)
			}
		}
		for _, l := range ruleLabel.FindAllStringSubmatch(body, -1) {
			perWorker := !strings.Contains(expr[1], " by (") && !strings.Contains(expr[1], "consumer:")
			if !slices.Contains([]string{"stream_name", "consumer_name"}, l[1]) && (l[1] != "instance" || !perWorker) && !strings.Contains(expr[1], ", "+l[1]+")") {
				t.Errorf("%s: its text has the label %s, which it has not", name, l[1])
			}
		}
	}
	for _, r := range used {
		if !slices.Contains(records, r) {
			t.Errorf("%s is used, and not recorded", r)
		}
	}
	for _, r := range records {
		if !slices.Contains(used, r) {
			t.Errorf("%s is recorded, and not used", r)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^### (\S+)$`).FindAllStringSubmatch(howto, -1) {
		if !slices.Contains(alerts, m[1]) {
			t.Errorf("the documentation has %s, and the rules have not", m[1])
		}
	}
	if len(alerts) < 20 {
		t.Errorf("only %d alerts were found", len(alerts))
	}
}
