package worker

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// The five numbers are read whatever stands before and behind them: with and without a domain, to the full width of 64 bits.
func TestReplySubjects(t *testing.T) {
	want := stamp{deliveries: 2, streamSeq: 30, consumerSeq: 40, published: 1700000000123456789, pending: 6}
	const five = "2.30.40.1700000000123456789.6"
	for _, s := range []string{
		"$JS.ACK.EVENTS.D." + five,                         // 9 tokens
		"$JS.ACK._.ACCHASH.EVENTS.D." + five,               // 11, without the random token
		"$JS.ACK._.ACCHASH.EVENTS.D." + five + ".Xr4nd0m",  // 12, as the server sends it
		"$JS.ACK.hub.ACCHASH.EVENTS.D." + five + ".",       // an empty one
		"$JS.ACK.hub.ACCHASH.EVENTS.D." + five + ".a.b.77", // what a later server may add
		"$JS.ACK.1.2.3.4." + five + ".9",                   // names that are numbers
	} {
		if got, ok := parseReply(s); !ok || got != want {
			t.Errorf("%q: %+v, %v", s, got, ok)
		}
	}
	big := strconv.FormatUint(math.MaxUint64, 10)
	got, ok := parseReply("$JS.ACK.S.C." + big + "." + big + "." + big + ".1." + big)
	if !ok || got.streamSeq != math.MaxUint64 || got.deliveries != math.MaxUint64 || got.consumerSeq != math.MaxUint64 || got.pending != math.MaxUint64 {
		t.Errorf("64 bits: %+v, %v", got, ok)
	}
}

// What is no reply subject of a delivery is refused, never misread: a status has none, and another's inbox may come along.
func TestUnreadableReplySubjects(t *testing.T) {
	for _, s := range []string{
		"", ".", "$JS.ACK", "$JS.ACK.", "_INBOX.abc.1", "$JS.API.CONSUMER.INFO.EVENTS.D",
		"$JS.ACK.EVENTS.D.1.2.3.4",                       // 8 tokens
		"$JS.ACK.EVENTS.D.1.2.3.4.5.6",                   // 10
		"$JS.ACK.EVENTS.D.1.2.3.4.x",                     // not a number
		"$JS.ACK.EVENTS.D.1.-2.3.4.5",                    // a sign
		"$JS.ACK.EVENTS.D.1.+2.3.4.5",                    // a sign
		"$JS.ACK.EVENTS.D.1..3.4.5",                      // empty
		"$JS.ACK.EVENTS.D.1.0x2.3.4.5",                   // hexadecimal
		"$JS.ACK.EVENTS.D.1.18446744073709551616.3.4.5",  // 2^64
		"$JS.ACK.EVENTS.D.1.99999999999999999999.3.4.5",  // above it, 20 digits
		"$JS.ACK.EVENTS.D.1.000000000000000000002.3.4.5", // 21 digits
		"$JS.ACK.EVENTS.D.1.٢.3.4.5",                     // a digit of another script
		"$js.ack.EVENTS.D.1.2.3.4.5",
	} {
		if got, ok := parseReply(s); ok {
			t.Errorf("%q was read as %+v", s, got)
		}
	}
}

func TestParseUintIsStrconv(t *testing.T) {
	for _, n := range []uint64{0, 1, 9, 10, 1844674407370955161, 1844674407370955162, math.MaxUint64 / 10 * 10, math.MaxUint64 - 1, math.MaxUint64} {
		if got, ok := parseUint(strconv.FormatUint(n, 10)); !ok || got != n {
			t.Errorf("%d was read as %d, %v", n, got, ok)
		}
	}
}

// FuzzParseReply checks that nothing makes parseReply panic, and that what it accepts says what it returns.
func FuzzParseReply(f *testing.F) {
	f.Add("$JS.ACK.EVENTS.D.2.30.40.1700000000123456789.6")
	f.Add("$JS.ACK._.ACCHASH.EVENTS.D.2.30.40.1700000000123456789.6.Xr4nd0m")
	f.Add("$JS.ACK.........")
	f.Add("$JS.ACK.EVENTS.D.1.18446744073709551615.3.4.18446744073709551616")
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := parseReply(s)
		if !ok {
			return
		}
		tokens := strings.Split(s, ".")
		first := 4
		if len(tokens) > 9 {
			first = 6
		}
		for i, n := range []uint64{got.deliveries, got.streamSeq, got.consumerSeq, uint64(got.published), got.pending} {
			if want, err := strconv.ParseUint(tokens[first+i], 10, 64); err != nil || n != want {
				t.Fatalf("%q: number %d is %d, strconv reads %d, %v", s, i, n, want, err)
			}
		}
		if again, ok := parseReply(fmt.Sprintf("$JS.ACK.S.C.%d.%d.%d.%d.%d", got.deliveries, got.streamSeq, got.consumerSeq, uint64(got.published), got.pending)); !ok || again != got {
			t.Fatalf("%q: written anew it is %+v, was %+v", s, again, got)
		}
	})
}
