// Package kvbucket makes key-value buckets as the client's own CreateKeyValue does (nats.go 1.55), without asking for the account's limits first, for which
// few users have the right.
package kvbucket

import (
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// codeMaxBytesRequired says that the account wants every stream to have max_bytes (nats-server 2.15, errors.json).
const codeMaxBytesRequired = 10113

// Make makes the stream of a bucket by create, which asks the server. Values are kept for the time keep; most is how many bytes the bucket may take where the account
// wants a limit. The error is create's.
func Make(name, description string, keep time.Duration, replicas int, most int64, create func(jetstream.StreamConfig) error) error {
	cfg := jetstream.StreamConfig{
		Name: "KV_" + name, Description: description, Subjects: []string{"$KV." + name + ".>"}, MaxMsgsPerSubject: 1, MaxAge: keep, Replicas: replicas,
		Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, AllowDirect: true, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1,
	}
	err := create(cfg)
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == codeMaxBytesRequired {
		cfg.MaxBytes = most
		err = create(cfg)
	}
	return err
}

// Plain holds for names of letters, digits, - and _, of which the names of buckets are made.
func Plain(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	})
}

// Token makes of a stream's or a consumer's name what may stand in a key, which takes fewer characters. No two names make one token.
func Token(name string) string {
	if Plain(name) {
		return name
	}
	return "=" + hex.EncodeToString([]byte(name))
}
