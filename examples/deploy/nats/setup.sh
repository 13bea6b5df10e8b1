#!/bin/sh
# Makes the stream of the shop and what its services need, as the user admin, whose variables are NATS_URL, NATS_CA, NATS_CERT, NATS_KEY and NATS_NKEY.
# The services run with WORKER_BIND=existing then, and make nothing. Run twice, it stops at the first thing that is there.
set -eu

nats() { command "${NATS:-nats}" --inbox-prefix _INBOX_admin "$@" >/dev/null; }

# The stream. With --allow-direct inventory may read its own events and no others.
nats stream add EVENTS --subjects 'events.>' --retention limits --storage file --allow-direct --defaults

# Dead letters and their replays; the bucket of the attempts and that of the mails that were sent, for a week each.
nats stream add EVENTS_DLQ --subjects 'dlq.EVENTS.>,replay.EVENTS.>' --retention limits --storage file --discard new \
	--max-age 720h --max-bytes 1073741824 --max-msgs-per-subject 1 --allow-direct --defaults
nats kv add ackfloor_EVENTS --history 1 --ttl 168h --storage file
nats kv add ackfloor_once --history 1 --ttl 168h --storage file

# A consumer for each service, and one for its replays.
consumer() {
	stream=$1 name=$2
	shift 2
	nats consumer add "$stream" "$name" --pull --ack explicit --wait 30s --max-pending 1000 "$@" --defaults
}
consumer EVENTS inventory --deliver all --filter events.order_placed
consumer EVENTS email --deliver new --filter events.order_placed --filter events.user_registered
consumer EVENTS analytics --deliver all --filter events.page_loaded --filter events.input_changed
for name in inventory email analytics; do
	consumer EVENTS_DLQ "replay_EVENTS_$name" --deliver all --filter "replay.EVENTS.$name.>"
done
