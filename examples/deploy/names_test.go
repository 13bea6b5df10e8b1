package deploy

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/worker"
)

// afterDrain is what a stop may take behind the grace for handlers: 3 s for the last confirmations, and what a service does then (5 s for an outbox or a
// summary), and a little.
const afterDrain = 10 * time.Second

// drainTimeout is the grace that a service has: by its environment, by the default in its main.go, by the worker's.
func drainTimeout(service string, env map[string]string) time.Duration {
	text := env["WORKER_DRAIN_TIMEOUT"]
	if m := regexp.MustCompile(`"WORKER_DRAIN_TIMEOUT":\s+"(\w+)"`).FindStringSubmatch(source(service)); text == "" && m != nil {
		text = m[1]
	}
	d, err := time.ParseDuration(cmp.Or(text, "25s"))
	if err != nil {
		return time.Hour
	}
	return d
}

// source is the code of a service, without its tests.
func source(service string) string {
	files, _ := filepath.Glob(filepath.Join("..", service, "*.go"))
	var all strings.Builder
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			text, _ := os.ReadFile(file)
			all.Write(text)
		}
	}
	return all.String()
}

// envProblems tells which variables mean nothing to a service, and which values the worker does not take.
func envProblems(service string, env map[string]string) (out []string) {
	known := map[string]bool{"GOMEMLIMIT": true}
	for _, s := range (worker.Config{}).Settings("") {
		known[s.Name] = true
		if strings.HasPrefix(s.Name, "NATS_") { // secrets can be files
			known[s.Name+"_FILE"] = s.Name == "NATS_URL" || s.Name == "NATS_PASSWORD" || s.Name == "NATS_TOKEN"
		}
	}
	code := source(service)
	for name, value := range env {
		base, file := strings.CutSuffix(name, "_FILE")
		own := strings.Contains(code, `"`+name+`"`) || file && strings.Contains(code, `"`+base+`"`)
		if !known[name] && !own {
			out = append(out, fmt.Sprintf("%s means nothing to it", name))
		}
		if strings.TrimSpace(value) != value {
			out = append(out, fmt.Sprintf("%s=%q has blanks", name, value))
		}
	}
	return out
}

// pinned tells whether an image's name has a tag, and not one that moves.
func pinned(image string) bool {
	_, tag, ok := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return ok && tag != "latest" && tag != ""
}

// memoryFits tells whether Go's own limit leaves room below the container's, and is not far below.
func memoryFits(limit string, container int64) bool {
	n, err := strconv.ParseInt(strings.TrimSuffix(limit, "MiB"), 10, 64)
	return err == nil && n<<20 <= container*9/10 && n<<20 >= container/2
}
