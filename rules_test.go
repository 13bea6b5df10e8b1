package ackfloor_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The rules that a linter does not know, each with the fault that it remembers.
func TestRules(t *testing.T) {
	for _, dir := range []string{".", "admin", "retry", "breaker", "deadletter", "once", "limit", "metrics", "protobuf", "systemd", "tracing", "internal/wildcard", "internal/denied", "internal/kvbucket", "internal/outcome", "internal/tape", "shutdown", "worker", "testutil", "testutil/fault"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ruleImports(t, dir, file, f)
			if !strings.HasPrefix(dir, "testutil") {
				ruleCalls(t, set, f)
			}
			if dir != "testutil/fault" { // which reads what others have written
				ruleSettlements(t, set, file, f)
			}
			ruleSizes(t, set, file, f)
		}
	}
}

// What a package may import: a user of worker must not build nats-server, and root and retry stay small.
func ruleImports(t *testing.T, dir, file string, f *ast.File) {
	t.Helper()
	allowed := map[string][]string{
		".": {"github.com/nats-io/nats.go"},
		"admin": {"github.com/nats-io/nats.go", "github.com/nats-io/nats.go/jetstream", "go.uber.org/zap", "github.com/ackfloor/ackfloor/worker",
			"github.com/ackfloor/ackfloor/shutdown", "github.com/ackfloor/ackfloor/internal/tape"},
		"retry":   {},
		"breaker": {"github.com/failsafe-go/failsafe-go/circuitbreaker", "github.com/ackfloor/ackfloor"},
		"once": {"github.com/nats-io/nats.go", "github.com/nats-io/nats.go/jetstream", "github.com/ackfloor/ackfloor", "github.com/ackfloor/ackfloor/internal/denied",
			"github.com/ackfloor/ackfloor/internal/kvbucket"},
		"limit": {"github.com/ackfloor/ackfloor", "golang.org/x/time/rate", "github.com/failsafe-go/failsafe-go/adaptivelimiter"},
		"metrics": {"github.com/ackfloor/ackfloor", "github.com/ackfloor/ackfloor/worker", "github.com/prometheus/client_golang/prometheus",
			"github.com/prometheus/client_model/go", "github.com/ackfloor/ackfloor/internal/outcome"},
		"protobuf": {"github.com/ackfloor/ackfloor", "github.com/nats-io/nats.go", "google.golang.org/protobuf/encoding/protojson", "google.golang.org/protobuf/proto",
			"google.golang.org/protobuf/reflect/protoregistry"},
		"tracing": {"github.com/ackfloor/ackfloor", "github.com/ackfloor/ackfloor/worker", "go.uber.org/zap", "github.com/nats-io/nats.go", "github.com/nats-io/nats.go/jetstream", "go.opentelemetry.io/otel",
			"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes", "go.opentelemetry.io/otel/propagation", "go.opentelemetry.io/otel/semconv/v1.43.0",
			"go.opentelemetry.io/otel/trace", "go.opentelemetry.io/otel/trace/noop", "github.com/ackfloor/ackfloor/internal/outcome"},
		"systemd":           {"github.com/ackfloor/ackfloor/worker", "github.com/coreos/go-systemd/v22/daemon", "go.uber.org/zap"},
		"shutdown":          {},
		"internal/wildcard": {},
		"internal/denied":   {"github.com/nats-io/nats.go"},
		"internal/kvbucket": {"github.com/nats-io/nats.go/jetstream"},
		"internal/outcome":  {"github.com/ackfloor/ackfloor"},
		"internal/tape":     {"github.com/nats-io/nats.go", "github.com/nats-io/nats.go/jetstream", "github.com/ackfloor/ackfloor/internal/denied"},
		"deadletter": {"github.com/nats-io/nats.go", "github.com/nats-io/nats.go/jetstream", "github.com/ackfloor/ackfloor", "github.com/ackfloor/ackfloor/internal/wildcard",
			"github.com/ackfloor/ackfloor/internal/denied"},
		"worker": {"github.com/nats-io/nats.go", "github.com/nats-io/nats.go/jetstream", "go.uber.org/zap", "go.uber.org/zap/zapcore", "go.uber.org/zap/exp/zapslog", "github.com/caarlos0/env/v11",
			"github.com/ackfloor/ackfloor", "github.com/ackfloor/ackfloor/retry", "github.com/ackfloor/ackfloor/shutdown", "github.com/ackfloor/ackfloor/deadletter",
			"github.com/ackfloor/ackfloor/internal/wildcard", "github.com/ackfloor/ackfloor/internal/denied", "github.com/ackfloor/ackfloor/internal/kvbucket"},
		"testutil": {"github.com/nats-io/nats.go", "github.com/nats-io/nats.go/jetstream", "github.com/nats-io/nats-server/v2/server", "github.com/ackfloor/ackfloor"},
		"testutil/fault": {"github.com/nats-io/nats.go", "github.com/nats-io/nats.go/jetstream", "github.com/ackfloor/ackfloor", "github.com/ackfloor/ackfloor/testutil",
			"github.com/ackfloor/ackfloor/deadletter"},
	}
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		ok := !strings.Contains(path, ".")
		for _, a := range allowed[dir] {
			ok = ok || path == a
		}
		if !ok {
			t.Errorf("%s imports %s: package %s may not", file, path, dir)
		}
	}
}

// No time.Sleep, which a stop can't wake; no context.Background, which nothing ends: a retry's sleep once held up a stop.
func ruleCalls(t *testing.T, set *token.FileSet, f *ast.File) {
	t.Helper()
	mains := map[string]bool{"run": true, "Main": true, "FromSlog": true} // where a process begins, or no context is passed on
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && mains[fn.Name.Name] {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			switch name := x.Name + "." + sel.Sel.Name; name {
			case "time.Sleep", "context.Background", "context.TODO":
				t.Errorf("%s: %s in library code", set.Position(sel.Pos()), name)
			}
			return true
		})
	}
}

// Acks, naks and terms are written in one place: one that left elsewhere was never confirmed.
func ruleSettlements(t *testing.T, set *token.FileSet, file string, f *ast.File) {
	t.Helper()
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING || file == filepath.Join("worker", "runs.go") {
			return true
		}
		for _, body := range []string{"+ACK", "-NAK", "+TERM", "+WPI", "+NXT"} {
			if strings.Contains(lit.Value, body) {
				t.Errorf("%s: %s is written outside worker/runs.go", set.Position(lit.Pos()), body)
			}
		}
		return true
	})
}

// A file has one purpose, and a function fits on a screen.
func ruleSizes(t *testing.T, set *token.FileSet, file string, f *ast.File) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 260 {
		t.Errorf("%s has %d lines: does it still have one purpose?", file, n)
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			if n := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line; n > 60 {
				t.Errorf("%s: %s has %d lines", set.Position(fn.Pos()), fn.Name.Name, n)
			}
		}
	}
}
