// Package protobuf makes handlers of typed functions for Protocol Buffers, as ackfloor.JSON does for JSON.
//
//	h := protobuf.Handler(func(ctx context.Context, o *orderpb.Order, m *ackfloor.Message) error {
//		return reserve(ctx, o)
//	})
//
// It is a module of its own, so that only those who import it download google.golang.org/protobuf.
//
// # Encodings
//
// A payload is in the binary encoding or in the JSON mapping of Protocol Buffers. The header Content-Type says which, in any case of its name and
// its value; parameters such as charset are not looked at:
//
//	no header, or an empty one                binary
//	application/protobuf,                     binary
//	application/x-protobuf,
//	application/vnd.google.protobuf,
//	application/octet-stream
//	application/json,                         JSON
//	application/protobuf+json,
//	application/x-protobuf+json
//	anything else                             can't be decoded
//
// Options.Encoding takes one of the two whatever the header says.
//
// # What is a message
//
// An empty payload is a valid binary message: every field has its default. It is no valid JSON.
//
// Fields that the type does not know come from a publisher that is newer than the worker. In the binary encoding they are kept, and are there again when the
// value is encoded. JSON has no place to keep them; they are ignored, as ackfloor.JSON does.
//
// What can't be decoded is ackfloor.Permanent around an *ackfloor.DecodeError, and the function is not called: wrong bytes, a string that is not
// UTF-8, a required field (proto2, editions) that is missing, an unknown content type. In the dead letters its reason is "undecodable".
//
// The binary encoding does not name its type. Bytes of another type decode without an error more often than not, into a value whose fields are
// empty or wrong; so publish one type on a subject.
package protobuf
