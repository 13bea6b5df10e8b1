// Package deadletter keeps the messages that a worker could not handle where a person finds them, and sends them back to the one consumer that
// failed. A worker uses Prepare, Writer and ReadReplay; programs and the command line tool use Store.
//
// # Where letters are
//
// In a stream of their own, by default <STREAM>_DLQ, one subject a message:
//
//	dlq.<stream>.<consumer>.<sequence>                  the letter
//	dlq.<stream>.<consumer>.<sequence>.<published>      of another message of that sequence: the stream was deleted and made again
//	dlq.<stream>.<consumer>.<sequence>.tail.<published> the second part of a letter whose message was too large for one
//	replay.<stream>.<consumer>.<sequence>[.<published>] its replay
//
// Sequence and publish time (in nanoseconds) are those of the original message. The stream has limits retention, discard new, one message a
// subject, 30 days and 1 GiB unless said otherwise. The durable consumer replay_<stream>_<consumer> on it brings the replays to the worker of
// that consumer, and to no other.
//
// # What a letter has
//
// The payload, byte for byte, and the publisher's headers, exactly. Those that would do something when they are published again (Nats-*,
// traceparent, Status, Ackfloor-*, in any case of the letters), whose name can't be published or whose value would be changed on the way are
// carried as JSON in the header Ackfloor-Carried, where they neither act nor block; all others stay as they are, so that `nats stream get` shows
// them. Beside them are headers of its own: Ackfloor-Subject, -Stream, -Consumer, -Sequence, -Published, -Deliveries, -Attempts, -Reason, -Error,
// -First-Failed, -Last-Failed, -Host, -Version, -Replays and -Replay-Of.
//
// A message near max_payload, or with headers near 64 KiB, has no room for these. It is kept in two parts: see Letter.Incomplete.
//
// # What holds
//
//   - A message has one letter, however often and by how many processes it is written, for as long as the letter is there: the server refuses
//     the second one. Write returns nil when the letter is stored, so a worker that terminates the message after that loses none.
//   - Nothing that is kept is given up for something new. A full stream refuses letters, with ErrFull, until there is room.
//   - A letter is replayed once, also by two people at the same moment, and the replay reaches the consumer that failed and no other. If it
//     fails, a new letter takes the place of the old one, with a count and the sequence of the one that it came from.
//   - Looking changes nothing: no consumer is made, nothing is acknowledged, no message is added.
//
// # What does not
//
//   - Letters are kept for 30 days and then gone, handled or not, unless Config.MaxAge or the stream says otherwise.
//   - Who may not read letters back can't tell the letter of a message from one of an older message of the same sequence, of a stream that was
//     deleted and made again since: the newer message then gets no letter. Nor can large replays be completed. Prepare warns; allow the worker
//     $JS.API.DIRECT.GET.<dead-letter stream>.dlq.<stream>.<consumer>.>
//   - A replay is delivered at least once, like every message; it is handled again if the consumer replay_<stream>_<consumer> is deleted and
//     made again. State is what that consumer's ack floor says: a replay counts as handled once it and all before it are settled.
//   - A stream that was made by hand keeps what it is set to: with discard old, a short max_age or memory storage letters are lost. Prepare warns.
//   - A purge, and a removal beside this package, takes letters, second parts and replays apart.
//
// # Rights
//
// A worker publishes to dlq.<stream>.<consumer>.> and should be able to read it back, as above. Prepare looks with $JS.API.STREAM.INFO and creates
// with $JS.API.STREAM.CREATE.<dead-letter stream>; it does without both where the stream exists. Those who look and replay need what Store says.
package deadletter
