package model_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Random plans: whatever happens, a Runner keeps its word. See world for what is checked.
func TestRandomRunner(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plan := drawPlan(rt)
		if problems := run(t, plan); len(problems) > 0 {
			rt.Fatalf("plan: %q\n%s", plan, strings.Join(problems, "\n"))
		}
	})
}

func drawPlan(t *rapid.T) string {
	one := func(name string, of ...any) string { return fmt.Sprint(name, "=", rapid.SampledFrom(of).Draw(t, name)) }
	replicas := one("replicas", 1, 3)
	rough := rapid.Bool().Draw(t, "rough")
	waits := []any{"5s", "8s", "30s"}
	if rough {
		waits = append(waits, "1s", "1s") // which may end while a connection is away
	}
	words := []string{replicas, one("ackwait", waits...), one("maxpending", 100, 100, 5, 1000), one("slots", 1, 2, 4, 16), one("latency", "0s", "2ms", "20ms"),
		one("grace", "5s", "5s", "300ms"), one("mode", "plain", "plain", "keys", "batches"),
		fmt.Sprint("seed=", rapid.IntRange(1, 1000).Draw(t, "seed"))}
	plan := []string{strings.Join(words, " "), fmt.Sprint("publish ", rapid.IntRange(1, 120).Draw(t, "backlog"))}
	if rapid.IntRange(0, 2).Draw(t, "old") > 0 {
		plan = append(plan, "sleep 40s") // longer ago than ack_wait
	}
	for _, name := range []string{"a", "b", "c"}[:rapid.SampledFrom([]int{1, 2, 2, 3}).Draw(t, "workers")] {
		plan = append(plan, "start "+name)
	}
	event := rapid.Custom(func(t *rapid.T) string { return drawEvent(t, replicas == "replicas=3", rough) })
	return strings.Join(append(plan, rapid.SliceOfN(event, 1, 25).Draw(t, "events")...), "; ")
}

// drawEvent draws what happens next: to a cluster or a server alone, and with or without what may lose settlements.
func drawEvent(t *rapid.T, cluster, rough bool) string {
	number := func(least, most int) int { return rapid.IntRange(least, most).Draw(t, "n") }
	span := func(most time.Duration) time.Duration {
		return time.Duration(number(1, int(most/(10*time.Millisecond)))) * 10 * time.Millisecond
	}
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
	what := number(0, 17)
	if rough {
		what = number(0, 23)
	}
	switch {
	case what < 2:
		return fmt.Sprint("publish ", number(1, 40))
	case what < 5:
		return "start " + name
	case what < 8:
		return "stop " + name
	case what < 10 && cluster:
		return fmt.Sprint("move ", span(500*time.Millisecond))
	case what < 11:
		return fmt.Sprint("restart ", span(time.Second))
	case what < 12:
		return fmt.Sprint("losepulls ", number(1, 3))
	case what < 13:
		return fmt.Sprint("late ", number(1, 20))
	case what < 18:
		return fmt.Sprint("sleep ", span(time.Second))
	case what == 18:
		return "kill " + name
	case what < 21:
		return fmt.Sprintf("cut %s %v", name, rapid.SampledFrom([]time.Duration{span(500 * time.Millisecond), span(3 * time.Second)}).Draw(t, "deaf"))
	case what == 21:
		return fmt.Sprint("nobody ", number(1, 40))
	default:
		return fmt.Sprint("lose ", rapid.SampledFrom([]int{number(1, 20), 200}).Draw(t, "many"))
	}
}
