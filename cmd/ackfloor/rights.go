package main

import (
	"strings"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/internal/kvbucket"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go/jetstream"
)

// right is one subject that a worker publishes to.
type right struct {
	subject string
	group   string // what it belongs to, in the order of the list
	why     string // in a few words
	without string // what follows where it is missing; "" where it ends with an error
	makes   bool   // it serves to make what is missing, and is not needed where that is there
	try     try
}

// try is how it is found out whether a right is there, so that the server changes nothing and no message is taken.
type try int

const (
	tryNot   try = iota // a publish to it would reach whoever listens
	tryAsk              // it is a question
	trySpoil            // a request that can't be read is refused before anything is done
	tryAck              // a settlement that means nothing is answered, and not applied
	tryGet              // of a message that is not there
	tryStore            // on a condition that can't be met
	tryTell             // workers listen, who take no notice of what they can't read
	trySame             // with another right: it is another name of the same
)

// wants is what a worker is meant to do beside what its Config says.
type wants struct {
	replays bool     // of dead letters
	admin   bool     // what the status page and ackfloor cursors ask
	once    string   // the bucket of once.KV; "" is none
	publish []string // what its handler publishes to
	read    []string // of which subjects of the stream its handler reads the last message
}

// list is a list of rights under way.
type list struct {
	cfg   worker.Config
	wants wants
	api   string // with its dot
	kv    string // what stands before $KV in the subject of a write
	group string
	all   []right
}

const off = "off"

// rights lists what the worker of a Config publishes to. They are those that worker, deadletter and once use: docs/howto-permissions.md.
func rights(cfg worker.Config, w wants) []right {
	l := &list{cfg: cfg, wants: w, api: strings.TrimSuffix(apiPrefix(cfg.Connection), ".") + "."}
	if l.api != jetstream.DefaultAPIPrefix {
		l.kv = l.api
	}
	l.consumer()
	if cfg.DeadLetter != off {
		l.letters()
		if w.replays {
			l.replays()
		}
	}
	if cfg.Records != off {
		l.bucket("the bucket of the attempts", cfg.Records, kvbucket.Token(cfg.Stream)+"."+kvbucket.Token(cfg.Consumer)+".", "attempts are counted by deliveries")
	}
	if w.once != "" {
		l.bucket("the bucket of once.KV", w.once, "", "")
	}
	if w.admin {
		l.admin()
	}
	l.group = "the handler"
	for _, subject := range w.publish {
		l.add(subject, "to publish", "", tryNot)
	}
	for _, subject := range w.read {
		l.add(l.api+"DIRECT.GET."+cfg.Stream+"."+subject, "to read the last one, where the stream has allow_direct", "", tryGet)
	}
	if cfg.Connection.Domain != "" {
		l.group = "the same, for a worker that is connected to a server of domain " + cfg.Connection.Domain + " itself, not by a leaf node"
		for _, r := range l.all {
			l.add(local(cfg, r.subject), "", "", trySame)
		}
	}
	return l.all
}

// local is a subject as a server knows it that is of the domain itself: there the subjects of the domain are mapped to those without it before it is
// looked who may publish to them (nats-server 2.15, generateJSMappingTable, processInboundClientMsg; seen).
func local(cfg worker.Config, subject string) string {
	rest, ok := strings.CutPrefix(subject, "$JS."+cfg.Connection.Domain+".API.")
	switch {
	case !ok || cfg.Connection.Domain == "":
		return subject
	case strings.HasPrefix(rest, "$KV."):
		return rest
	}
	return jetstream.DefaultAPIPrefix + rest
}

// add lists a subject, once.
func (l *list) add(subject, why, without string, t try) {
	for _, r := range l.all {
		if r.subject == subject {
			return
		}
	}
	l.all = append(l.all, right{subject: subject, group: l.group, why: why, without: without, try: t, makes: strings.Contains(subject, ".CREATE.")})
}

// makes tells whether the worker makes what is missing.
func (l *list) makes() bool { return l.cfg.Bind != worker.BindExisting }

// acks are the subjects on which messages of a consumer are settled. The longer form is that of servers that know the account's domain.
func (l *list) acks(stream, consumer, without string) {
	l.add("$JS.ACK."+stream+"."+consumer+".>", "to settle them", without, tryAck)
	if l.kv != "" {
		l.add("$JS.ACK.*.*."+stream+"."+consumer+".>", "to settle them, with a domain", without, tryAck)
	}
}

func (l *list) consumer() {
	stream, name := l.cfg.Stream, l.cfg.Consumer
	of := stream + "." + name
	l.group = "the consumer"
	l.add(l.api+"CONSUMER.INFO."+of, "to find it, and to look where it stands", "", tryAsk)
	if l.makes() {
		l.add(l.api+"CONSUMER.CREATE."+of+filterOf(l.cfg.Filter), "to make or update it", "", trySpoil)
	}
	l.add(l.api+"CONSUMER.MSG.NEXT."+of, "to ask for messages", "", trySpoil)
	l.acks(stream, name, "")
	l.add(tells(l.cfg), told, untold, tryTell)
	if l.cfg.PinnedTTL > 0 {
		l.add(l.api+"CONSUMER.UNPIN."+of, "to give up the pin at a stop", "after a stop another process works only when WORKER_PINNED_TTL is over", trySpoil)
	}
	if l.makes() || l.cfg.DeadLetter != off {
		l.add(l.api+"STREAM.INFO."+stream, "to check the stream, and to see its replicas", "nothing is known of the stream, and what is made has one replica", tryAsk)
	}
}

// filterOf is what the server wants behind the name of a consumer that is made with one filter.
func filterOf(filter []string) string {
	if len(filter) == 1 && filter[0] != ">" {
		return "." + filter[0]
	}
	return ""
}

func (l *list) letters() {
	name := l.cfg.DeadLetter
	of := "dlq." + l.cfg.Stream + "." + l.cfg.Consumer + ".>"
	l.group = "dead letters"
	l.add(of, "to write them", "", tryStore)
	l.add(l.api+"STREAM.INFO."+name, "to check their stream", "it is not known whether their stream is as it should be", tryAsk)
	l.add(l.api+"DIRECT.GET."+name+"."+of, "to read them back", "a letter may be taken for one of a stream that was made anew", tryGet)
	if l.makes() {
		l.add(l.api+"STREAM.CREATE."+name, "to make their stream", "", trySpoil)
	}
	if l.cfg.Bind == worker.BindUpdate {
		l.add(l.api+"STREAM.UPDATE."+name, "to add their subjects to it", "their subjects have to be added by hand, where they are missing", trySpoil)
	}
}

func (l *list) replays() {
	stream, name := l.cfg.DeadLetter, deadletter.ReplayConsumer(l.cfg.Stream, l.cfg.Consumer)
	const without = "replays of dead letters are not handled"
	l.group = "replays of dead letters"
	l.add(l.api+"CONSUMER.INFO."+stream+"."+name, "to find their consumer", without, tryAsk)
	if l.makes() {
		l.add(l.api+"CONSUMER.CREATE."+stream+"."+name+"."+deadletter.ReplayFilter(l.cfg.Stream, l.cfg.Consumer), "to make it", without, trySpoil)
	}
	l.add(l.api+"CONSUMER.MSG.NEXT."+stream+"."+name, "to ask for them", without, trySpoil)
	l.acks(stream, name, without)
}

// bucket lists what a bucket takes. keys is what the keys begin with, with a dot at its end.
func (l *list) bucket(what, name, keys, without string) {
	stream, values := "KV_"+name, "$KV."+name+"."+keys+">"
	l.group = what
	l.add(l.api+"STREAM.INFO."+stream, "to find it", without, tryAsk)
	l.add(l.api+"DIRECT.GET."+stream+"."+values, "to read", without, tryGet)
	l.add(l.kv+values, "to write", without, tryStore)
	if l.makes() {
		l.add(l.api+"STREAM.CREATE."+stream, "to make it", without, trySpoil)
	}
}

func (l *list) admin() {
	l.group = "the status page, and ackfloor cursors"
	l.add(l.api+"STREAM.INFO."+l.cfg.Stream, "where the stream begins and ends", "the ends of the stream are not shown", tryAsk)
	l.add(l.api+"CONSUMER.LIST."+l.cfg.Stream, "where its consumers stand", "other consumers are not shown", tryAsk)
}

// listens lists what the worker subscribes to.
func listens(cfg worker.Config, w wants) []right {
	l := &list{cfg: cfg}
	l.add(inboxes(cfg), "the messages, and every answer", "", tryNot)
	elected := func(stream, consumer string) {
		if cfg.Connection.APIPrefix != "" {
			return // of another account, which keeps them to itself
		}
		l.add("$JS.EVENT.ADVISORY.CONSUMER.LEADER_ELECTED."+stream+"."+consumer, "that the consumer has a new leader, in a cluster",
			"what is settled or arrives as a cluster gives the consumer a new leader may be handled twice", tryNot)
	}
	elected(cfg.Stream, cfg.Consumer)
	if cfg.DeadLetter != off && w.replays {
		elected(cfg.DeadLetter, deadletter.ReplayConsumer(cfg.Stream, cfg.Consumer))
	}
	l.add(tells(cfg), told, untold, tryNot)
	return l.all
}

// tells is where the workers of a consumer tell one another what they have settled.
func tells(cfg worker.Config) string {
	return "ackfloor.settled." + cfg.Stream + "." + cfg.Consumer + ".*"
}

const (
	told   = "what its workers tell one another"
	untold = "what a server forgets that is killed may be handled twice"
)

// inboxes is what a worker subscribes to: every answer, and the messages.
func inboxes(cfg worker.Config) string { return cfg.Connection.InboxPrefix + ".>" }
