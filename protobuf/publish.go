package protobuf

import (
	"fmt"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
)

// NewMsg makes a message with v in the binary encoding, and the header Content-Type: application/protobuf. What it can't encode, such as a
// string that is not UTF-8, is an error.
func NewMsg(subject string, v proto.Message) (*nats.Msg, error) {
	data, err := proto.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("protobuf: encode for %q: %w", subject, err)
	}
	return &nats.Msg{Subject: subject, Data: data, Header: nats.Header{contentType: {binaryType}}}, nil
}
