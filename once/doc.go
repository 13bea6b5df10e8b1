// Package once keeps the effects of a message from happening twice. At least once is what a worker promises: a message comes again when a process died
// while it held it, when a commit's or an ack's answer was lost, when a consumer was deleted and made anew. This package recognises it then.
//
// SQL is for effects in the handler's own database. The handler gets a transaction, and that the message is done is recorded in the same one. So an effect and
// its record are one: both are there or neither is, whatever dies.
//
//	done, err := once.NewSQL(db, once.SQLConfig{Dialect: once.SQLite})
//	…
//	worker.Main(once.JSON(done, func(ctx context.Context, tx *sql.Tx, o Order, m *ackfloor.Message) error {
//		_, err := tx.ExecContext(ctx, "UPDATE stock SET left = left - ? WHERE sku = ?", o.Quantity, o.SKU)
//		return err
//	}))
//
// KV is for effects elsewhere: an e-mail, a call of somebody's API. It keeps marks in a key-value bucket, one before the effect and one behind it. It can't make an
// effect and its mark one; what it can do is to tell when that was not so, and let the service choose whether such a message is done again or given up.
//
//	done, err := once.NewKV(js, once.KVConfig{InDoubt: once.Repeat})
//	…
//	h = ackfloor.Chain(h, done.Wrap)
//
// # Which message
//
// A message is known by its stream, its consumer, its sequence and the time at which the stream stored it. So two consumers do one message once each; a
// consumer that is made anew, by whatever start, finds what its predecessor of that name did; and a stream that was deleted and made anew has new messages, though
// they have the sequences of the old ones. A message that was published twice is two messages: for that the publisher has Nats-Msg-Id.
//
// What comes back from the dead letters is the message that it was. Where it had been done after all, by a commit whose answer was lost, it is skipped.
//
// # What is an attempt that failed
//
// An error, a panic, runtime.Goexit, a context that ended, a rollback, a commit that failed: none of them is recorded as done. Permanent, RetryAfter and Pause reach the
// worker as the handler returned them. A commit whose answer was lost counts as a failure, and the next attempt finds out.
package once
