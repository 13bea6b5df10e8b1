package model_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"
)

// The conformance of the model on random scripts, the strongest guard against drift: the same operations on both, and the same deliveries, answers, floors and
// counts at the same times.
func TestRandomConformance(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := jetstream.ConsumerConfig{AckWait: oddWait, MaxAckPending: rapid.SampledFrom([]int{1000, 1000, 1, 3, 6}).Draw(rt, "max_ack_pending"),
			MaxWaiting: rapid.SampledFrom([]int{512, 512, 2}).Draw(rt, "max_waiting")}
		beginnings := []string{"", "publish 4; sleep 3s; pull 3 5s; ", "publish 3 300; pull 9 30s; "} // old messages, or all that is done to held ones
		script := rapid.SampledFrom(beginnings).Draw(rt, "beginning") + strings.Join(rapid.SliceOfN(rapid.Custom(drawOp), 1, 40).Draw(rt, "script"), "; ")
		if cfg.MaxAckPending < 1000 { // where an ack makes room, it is chance whether what it asks for comes before
			script = strings.ReplaceAll(script, "next", "ack")
		}
		if differ, _ := play(t, cfg, script); differ != "" {
			rt.Fatalf("max_ack_pending %d, max_waiting %d, script: %q\n%s", cfg.MaxAckPending, cfg.MaxWaiting, script, differ)
		}
	})
}

// drawOp draws an operation of a script.
func drawOp(t *rapid.T) string {
	number := func(least, most int) int { return rapid.IntRange(least, most).Draw(t, "n") }
	span := func(most time.Duration) time.Duration {
		return time.Duration(number(1, int(most/(50*time.Millisecond)))) * 50 * time.Millisecond
	}
	which := number(1, 25)
	switch op := number(0, 21); op {
	case 0, 1, 2:
		return fmt.Sprintf("publish %d %d", number(1, 5), number(1, 400))
	case 3, 4, 5, 6:
		return "pull " + fmt.Sprint(number(1, 6)) + drawPull(t, span)
	case 7, 8, 9:
		return fmt.Sprint("ack ", which)
	case 10, 11:
		return fmt.Sprint("nak ", which)
	case 12:
		return fmt.Sprintf("nak %d %v", which, rapid.SampledFrom([]time.Duration{5 * time.Millisecond, span(4 * time.Second)}).Draw(t, "delay"))
	case 13, 14:
		return fmt.Sprint("wpi ", which)
	case 15:
		return fmt.Sprint(rapid.SampledFrom([]string{"term ", "next ", "junk "}).Draw(t, "word"), which)
	case 16:
		return fmt.Sprint("beyond ", number(1, 40))
	case 17:
		return fmt.Sprint("forget ", number(1, 10))
	case 18:
		return fmt.Sprint("restart ", span(2*time.Second))
	case 19:
		return fmt.Sprint("sleep ", oddWait+span(time.Second))
	default:
		return fmt.Sprint("sleep ", span(2*time.Second))
	}
}

// drawPull draws the options of a pull.
func drawPull(t *rapid.T, span func(time.Duration) time.Duration) (out string) {
	options := rapid.IntRange(0, 15).Draw(t, "options")
	if options > 1 {
		expires := span(5 * time.Second)
		out += fmt.Sprint(" ", expires)
		if options%4 == 3 {
			out += fmt.Sprint(" beat=", expires/2-110*time.Microsecond)
		}
	}
	if options%5 == 4 {
		out += fmt.Sprint(" bytes=", rapid.IntRange(50, 2000).Draw(t, "bytes"))
	}
	if options%7 == 6 {
		out += " nowait"
	}
	return out
}
