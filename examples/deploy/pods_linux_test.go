package deploy

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	core "k8s.io/api/core/v1"
)

// shopServer is a server to which creds are needed, with what a shop needs in the account SHOP, as nats/setup.sh makes it.
type shopServer struct {
	*server.Server
	account string // its public key
	creds   string // of a user who may do everything in the account
	js      jetstream.JetStream
}

func newShopServer(t *testing.T) *shopServer {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	key := func(kind nkeys.PrefixByte) (nkeys.KeyPair, string) {
		k, err := nkeys.CreatePair(kind)
		must(err)
		public, err := k.PublicKey()
		must(err)
		return k, public
	}
	operatorKey, operatorID := key(nkeys.PrefixByteOperator)
	accountKey, accountID := key(nkeys.PrefixByteAccount)
	_, systemID := key(nkeys.PrefixByteAccount)
	userKey, userID := key(nkeys.PrefixByteUser)
	account := jwt.NewAccountClaims(accountID)
	account.Name = "SHOP"
	account.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1, MaxAckPending: -1}
	accountText, err := account.Encode(operatorKey)
	must(err)
	userText, err := jwt.NewUserClaims(userID).Encode(accountKey)
	must(err)
	seed, err := userKey.Seed()
	must(err)
	creds, err := jwt.FormatUserConfig(userText, seed)
	must(err)
	resolver := &server.MemAccResolver{}
	must(resolver.Store(accountID, accountText))
	systemText, err := jwt.NewAccountClaims(systemID).Encode(operatorKey)
	must(err)
	must(resolver.Store(systemID, systemText))
	s, js := serve(t, &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, HTTPHost: "127.0.0.1", HTTPPort: server.RANDOM_PORT, JetStream: true,
		StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		TrustedOperators: []*jwt.OperatorClaims{jwt.NewOperatorClaims(operatorID)}, AccountResolver: resolver, SystemAccount: systemID},
		"creds", nats.UserCredentialBytes(creds))
	shop := &shopServer{s, accountID, string(creds), js}
	shop.setUp(t)
	return shop
}

func (s *shopServer) setUp(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, c := range []jetstream.StreamConfig{
		{Name: "EVENTS", Subjects: []string{"events.>"}, AllowDirect: true},
		{Name: "EVENTS_DLQ", Subjects: []string{"dlq.EVENTS.>", "replay.EVENTS.>"}, Discard: jetstream.DiscardNew,
			MaxAge: 720 * time.Hour, MaxBytes: 1 << 30, MaxMsgsPerSubject: 1, AllowDirect: true},
	} {
		if _, err := s.js.CreateStream(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	for bucket, ttl := range map[string]time.Duration{"ackfloor_EVENTS": 168 * time.Hour, "ackfloor_once": 720 * time.Hour} {
		if _, err := s.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket, History: 1, TTL: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	for name, filter := range map[string][]string{"inventory": {"events.order_placed"}, "email": {"events.order_placed", "events.user_registered"},
		"analytics": {"events.page_loaded", "events.input_changed"}} {
		c := jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy, FilterSubjects: filter}
		if name == "inventory" { // as WORKER_PINNED_TTL has it
			c.PriorityPolicy, c.PriorityGroups, c.PinnedTTL = jetstream.PriorityPolicyPinned, []string{"worker"}, 10*time.Second
		}
		replays := jetstream.ConsumerConfig{Durable: "replay_EVENTS_" + name, AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "replay.EVENTS." + name + ".>"}
		for stream, c := range map[string]jetstream.ConsumerConfig{"EVENTS": c, "EVENTS_DLQ": replays} {
			if _, err := s.js.CreateConsumer(ctx, stream, c); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (s *shopServer) publish(t *testing.T, subject, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := s.js.Publish(ctx, subject, []byte(body)); err != nil {
		t.Fatal(err)
	}
}

// settled waits until nothing waits for a consumer and all that was delivered is acknowledged.
func (s *shopServer) settled(t *testing.T, name string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		c, err := s.js.Consumer(ctx, "EVENTS", name)
		cancel()
		if err == nil && c.CachedInfo().NumPending == 0 && c.CachedInfo().NumAckPending == 0 {
			return
		}
		if time.Since(began) > endLimit {
			t.Fatalf("%s does not get to the end: %v", name, err)
		}
	}
}

// pod is a container of kubernetes/ as a jail, and the port of this machine that stands for its own.
type pod struct {
	jail
	one  core.Container
	port string
}

// pod makes what the kubelet makes of a workload: the environment, the volumes, the files of secrets. set are the variables that differ from there, ""
// to leave one out.
func (s *shopServer) pod(t *testing.T, c *cluster, name string, set map[string]string) pod {
	t.Helper()
	m, err := readDockerfile(name)
	if err != nil {
		t.Fatal(err)
	}
	w := c.workloads[name]
	p := pod{one: w.template.Spec.Containers[0], port: freePort(t)}
	env := m.env
	maps.Copy(env, c.env(p.one))
	env["NATS_URL"], env["WORKER_HTTP_ADDR"] = s.ClientURL(), "0.0.0.0"+p.port
	maps.Copy(env, set)
	p.jail = jail{Program: filepath.Join(built(t, name), name), Name: m.entrypoint[0], Dir: m.workdir, Mounts: map[string]string{}, Files: map[string]string{}}
	for k, v := range env {
		if v != "" {
			p.Env = append(p.Env, k+"="+v)
		}
	}
	for _, at := range p.one.VolumeMounts {
		i := slices.IndexFunc(w.template.Spec.Volumes, func(v core.Volume) bool { return v.Name == at.Name })
		switch {
		case i < 0, w.template.Spec.Volumes[i].EmptyDir != nil: // a claim is in none of them
			p.Mounts[at.MountPath] = t.TempDir()
		case at.Name == "nats":
			p.Files[at.MountPath+"/nats.creds"] = s.creds
		default:
			p.Files[at.MountPath+"/url"] = map[string]string{"smtp": "smtp://127.0.0.1:9?starttls=none"}[at.Name]
		}
	}
	return p
}

// probe waits until a probe of the pod succeeds.
func (p pod) probe(t *testing.T, probe *core.Probe) (body string) {
	t.Helper()
	url := "http://127.0.0.1" + p.port + probe.HTTPGet.Path
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(url)
		if err == nil {
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return string(text)
			}
			body = string(text)
		}
		if time.Since(began) > endLimit {
			t.Fatalf("%s: %v %s", url, err, body)
		}
	}
}

func (p pod) ready(t *testing.T) *inmate {
	t.Helper()
	running := p.start(t)
	p.probe(t, p.one.StartupProbe)
	p.probe(t, p.one.LivenessProbe)
	p.probe(t, p.one.ReadinessProbe)
	return running
}

// The pods of kubernetes/, with creds of an operator's account as a file: their probes succeed, they do their work, and drain. In place of PostgreSQL
// inventory has SQLite.
func TestPodsWorkAndDrain(t *testing.T) {
	t.Parallel()
	needJail(t)
	s := newShopServer(t)
	c := render(t)
	s.publish(t, "events.user_registered", "this is no JSON")
	s.publish(t, "events.order_placed", `{"order_id":"1","sku":"mug","quantity":2,"email":"ada@example.com"}`)
	s.publish(t, "events.page_loaded", `{"page":"/home","visitor":"v1"}`)
	running := map[string]*inmate{}
	for _, name := range services {
		set := map[string]string{"DATABASE_URL_FILE": ""}
		if name == "email" {
			set["SMTP_URL_FILE"] = "" // a receiver of its own
		}
		p := s.pod(t, c, name, set)
		running[name] = p.ready(t)
		if body := p.probe(t, &core.Probe{ProbeHandler: core.ProbeHandler{HTTPGet: &core.HTTPGetAction{Path: "/metrics"}}}); !strings.Contains(body, "\nackfloor_") {
			t.Errorf("%s: /metrics has none of ours", name)
		}
	}
	floors(t, s.js, map[string]uint64{"inventory": 2, "email": 2, "analytics": 3})
	for _, p := range running {
		p.term(t)
	}
	for _, p := range running {
		p.drained(t)
	}
	trigger := c.trigger(t, "email")
	if trigger.AccountID == "" || trigger.Account != "" {
		t.Errorf("account %q, id %q: with creds there is an operator, and the servers know an account by its id", trigger.Account, trigger.AccountID)
	}
	trigger.AccountID = s.account
	if lag := scalerLag(t, s.MonitorAddr().String(), trigger); lag != 0 {
		t.Errorf("lag %d", lag)
	}
}

// replace starts two pods and then replaces each of them, the new one first, rounds times, while orders come all the time. It returns all pods, how many
// orders there were, and how many messages the pods have handled.
func (s *shopServer) replace(t *testing.T, name string, rounds int, fresh func() pod) (pods []pod, orders, handled int) {
	t.Helper()
	var running []*inmate
	start := func() {
		p := fresh()
		pods = append(pods, p)
		running = append(running, p.ready(t))
	}
	end := func(i int) {
		running[i].term(t)
		handled += running[i].drained(t)
	}
	start()
	start()
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for ; ; orders++ {
			select {
			case <-stop:
				close(done)
				return
			case <-time.After(5 * time.Millisecond):
			}
			_, err := s.js.Publish(t.Context(), "events.order_placed", fmt.Appendf(nil, `{"order_id":"%d","sku":"mug","quantity":1,"email":"ada@example.com"}`, orders))
			if err != nil {
				done <- err
				return
			}
		}
	}()
	for i := range 2 * rounds {
		start()
		end(i)
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.settled(t, name)
	end(2 * rounds)
	end(2*rounds + 1)
	return pods, orders, handled
}

// Two pods of email are replaced twice, one by one and the new one first, while orders come: each order has one mail, and nothing is handled twice.
func TestRollingDeployHandlesNothingTwice(t *testing.T) {
	t.Parallel()
	needJail(t)
	s := newShopServer(t)
	c := render(t)
	pods, orders, handled := s.replace(t, "email", 2, func() pod {
		return s.pod(t, c, "email", map[string]string{"SMTP_URL_FILE": "", "EMAIL_RATE": "off"})
	})
	mails := map[string]int{}
	for _, p := range pods {
		found, _ := filepath.Glob(filepath.Join(p.Mounts["/data"], ".ackfloor", "outbox", "*"))
		for _, f := range found {
			mails[filepath.Base(f)]++
		}
	}
	twice := 0
	for _, n := range mails {
		twice += n - 1
	}
	if handled != orders || len(mails) != orders || twice != 0 {
		t.Errorf("%d handled, %d mails, %d of them twice; want %d", handled, len(mails), twice, orders)
	}
	t.Logf("%d orders, 4 pods replaced: %d handled, %d mails twice", orders, handled, twice)
}

// Two pods of inventory, of which one works: the other one is ready all the same, and goes on where the first one has drained, without selling a piece
// twice. They share SQLite's folder here, as they share PostgreSQL there.
func TestStandbyGoesOn(t *testing.T) {
	t.Parallel()
	needJail(t)
	const shelf = 40 // mugs
	s := newShopServer(t)
	c := render(t)
	shared := t.TempDir()
	_, orders, handled := s.replace(t, "inventory", 1, func() pod {
		p := s.pod(t, c, "inventory", map[string]string{"DATABASE_URL_FILE": ""})
		p.Mounts["/data"] = shared
		return p
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stream, err := s.js.Stream(ctx, "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter("events.*.*"))
	if err != nil {
		t.Fatal(err)
	}
	decided := map[string]int{}
	for subject, n := range info.State.Subjects {
		decided[strings.Split(subject, ".")[1]] += int(n)
	}
	if handled != shelf || decided["stock_reserved"] != shelf || decided["stock_rejected"] != orders-shelf {
		t.Errorf("%d orders: %d handled, events %v; want %d that are reserved and handled, and the others rejected", orders, handled, decided, shelf)
	}
	t.Logf("%d orders, 2 pods replaced: %v", orders, decided)
}
