package worker

import (
	"strings"
	"time"
)

// stamp is what the server puts into the reply subject of a delivery.
type stamp struct {
	deliveries  uint64
	streamSeq   uint64
	consumerSeq uint64
	published   int64 // nanoseconds since 1970
	pending     uint64
}

// parseReply reads the reply subject of a delivery. It has 9 tokens,
// $JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>, or 11 and more: a domain and an account
// hash behind ACK, and behind the five numbers whatever a later server adds (a random token today). Source: nats-server 2.15,
// ackReplyInfo; nats.go 1.55, GetMetadataFields.
func parseReply(s string) (stamp, bool) {
	if !strings.HasPrefix(s, "$JS.ACK.") {
		return stamp{}, false
	}
	skip := 4
	if n := strings.Count(s, ".") + 1; n >= 11 {
		skip = 6
	} else if n != 9 {
		return stamp{}, false
	}
	for range skip {
		s = s[strings.IndexByte(s, '.')+1:]
	}
	return parseNumbers(s)
}

// parseNumbers reads the five numbers of a reply subject, from what follows the consumer's name. It is called for every message, so it goes
// through the bytes once.
func parseNumbers(s string) (stamp, bool) {
	var v [5]uint64
	at := 0
	for i := range v {
		var n uint64
		begin := at
		for at < len(s) {
			d := s[at] - '0'
			if d > 9 {
				break
			}
			n = n*10 + uint64(d)
			at++
		}
		switch digits := at - begin; {
		case digits == 0, at < len(s) && s[at] != '.':
			return stamp{}, false
		case digits > 19: // n may have overflowed
			exact, ok := parseUint(s[begin:at])
			if !ok {
				return stamp{}, false
			}
			n = exact
		}
		v[i] = n
		at++
	}
	return stamp{deliveries: v[0], streamSeq: v[1], consumerSeq: v[2], published: int64(v[3]), pending: v[4]}, true
}

// parseUint reads decimal digits, up to 64 bits, and nothing else.
func parseUint(s string) (uint64, bool) {
	if s == "" || len(s) > 20 {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		d := uint64(s[i] - '0')
		if d > 9 || i == 19 && n > (1<<64-1-d)/10 { // 19 digits always fit
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

func (s stamp) time() time.Time { return time.Unix(0, s.published) }
