package deploy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScaledObject is KEDA's, of API version keda.sh/v1alpha1, as its documentation of 2.21 has it. It is written down here because KEDA's own types come
// with its whole operator; fields that kubernetes/ has no use for are left out, so they would be an error.
type ScaledObject struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec struct {
		ScaleTargetRef struct {
			Name       string `json:"name"`
			APIVersion string `json:"apiVersion"` // apps/v1 by default
			Kind       string `json:"kind"`       // Deployment by default
		} `json:"scaleTargetRef"`
		PollingInterval *int32 `json:"pollingInterval"` // seconds
		CooldownPeriod  *int32 `json:"cooldownPeriod"`  // seconds, before the last replica goes
		MinReplicaCount *int32 `json:"minReplicaCount"`
		MaxReplicaCount *int32 `json:"maxReplicaCount"`
		Fallback        *struct {
			FailureThreshold int32  `json:"failureThreshold"`
			Replicas         int32  `json:"replicas"`
			Behavior         string `json:"behavior"`
		} `json:"fallback"`
		Advanced *struct {
			HorizontalPodAutoscalerConfig *struct {
				Behavior *autoscaling.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Triggers []struct {
			Type              string                       `json:"type"`
			Metadata          map[string]string            `json:"metadata"`
			MetricType        autoscaling.MetricTargetType `json:"metricType"`
			AuthenticationRef *struct {
				Name string `json:"name"`
				Kind string `json:"kind"`
			} `json:"authenticationRef"`
		} `json:"triggers"`
	} `json:"spec"`
}

// jetStreamTrigger is the metadata that KEDA's scaler nats-jetstream takes. All values are strings there.
type jetStreamTrigger struct {
	Endpoint            string `json:"natsServerMonitoringEndpoint"`
	Account             string `json:"account"`
	AccountID           string `json:"accountID"`
	Stream              string `json:"stream"`
	Consumer            string `json:"consumer"`
	LagThreshold        string `json:"lagThreshold"`
	ActivationThreshold string `json:"activationLagThreshold"`
	UseHTTPS            string `json:"useHttps"`
}

func (c *cluster) trigger(t *testing.T, name string) jetStreamTrigger {
	t.Helper()
	s := c.scaled[name]
	if s == nil || len(s.Spec.Triggers) != 1 || s.Spec.Triggers[0].Type != "nats-jetstream" {
		t.Fatalf("%s has no trigger by its lag", name)
	}
	text, err := json.Marshal(s.Spec.Triggers[0].Metadata)
	if err != nil {
		t.Fatal(err)
	}
	var trigger jetStreamTrigger
	if err := decode(text, &trigger); err != nil {
		t.Fatal(err)
	}
	return trigger
}

func TestScaling(t *testing.T) {
	t.Parallel()
	c := render(t)
	for name, s := range c.scaled {
		w, ok := c.workloads[s.Spec.ScaleTargetRef.Name]
		switch {
		case !ok || w.kind != "Deployment" || s.Spec.ScaleTargetRef.Kind != "":
			t.Errorf("%s scales %v, which is no Deployment", name, s.Spec.ScaleTargetRef)
		case w.replicas != nil:
			t.Errorf("%s: the Deployment has replicas, so each apply undoes what KEDA has decided", name)
		case *s.Spec.MinReplicaCount < 1 || *s.Spec.MaxReplicaCount <= *s.Spec.MinReplicaCount:
			t.Errorf("%s: from %d to %d", name, *s.Spec.MinReplicaCount, *s.Spec.MaxReplicaCount)
		case len(w.claims) > 0 || c.env(w.template.Spec.Containers[0])["WORKER_PINNED_TTL"] != "":
			t.Errorf("%s: more processes do no more", name)
		case s.Spec.Fallback == nil || s.Spec.Fallback.Replicas < *s.Spec.MinReplicaCount:
			t.Errorf("%s: servers that don't answer would leave too few", name)
		}
		trigger := c.trigger(t, name)
		known := trigger.Stream == "EVENTS" && trigger.Consumer == name && trigger.Account+trigger.AccountID != ""
		if n, err := strconv.Atoi(trigger.LagThreshold); err != nil || n < 1 || !known {
			t.Errorf("%s: trigger %+v", name, trigger)
		}
		if host, port, err := splitHostPort(trigger.Endpoint); err != nil || port != "8222" || host == "" {
			t.Errorf("%s asks %q", name, trigger.Endpoint)
		}
	}
}

func splitHostPort(at string) (host, port string, err error) {
	u, err := url.Parse("http://" + at)
	if err != nil || u.Path != "" {
		return "", "", fmt.Errorf("%q: %w", at, err)
	}
	return u.Hostname(), u.Port(), nil
}

// What KEDA asks a real server for, with the account, stream and consumer of the trigger, and what it would make of the answer: what waits, and what is
// delivered and not acknowledged.
func TestScalerFindsTheLag(t *testing.T) {
	t.Parallel()
	trigger := render(t).trigger(t, "email")
	trigger.Account, trigger.AccountID = "SHOP", "" // servers without an operator; TestPodsWorkAndDrain has one
	o := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, HTTPHost: "127.0.0.1", HTTPPort: server.RANDOM_PORT,
		JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true}
	account := server.NewAccount(trigger.Account)
	o.Accounts = []*server.Account{account}
	o.Users = []*server.User{{Username: "email", Password: "p", Account: account}}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer func() {
		s.Shutdown()
		s.WaitForShutdown()
	}()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server takes no connections")
	}
	if account, err = s.LookupAccount(trigger.Account); err != nil {
		t.Fatal(err)
	}
	if err := account.EnableJetStream(map[string]server.JetStreamAccountLimits{"": {MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1}}, nil); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.ClientURL(), nats.UserInfo("email", "p"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	backlog(t, nc, trigger)
	if got := scalerLag(t, s.MonitorAddr().String(), trigger); got != 5 {
		t.Errorf("lag %d, want 3 that wait and 2 that are not acknowledged", got)
	}
	other := trigger
	other.Consumer = "emial"
	if got := scalerLag(t, s.MonitorAddr().String(), other); got != -1 {
		t.Errorf("lag %d of a consumer that is not there", got)
	}
}

// backlog leaves six messages of which one is acknowledged and two are delivered.
func backlog(t *testing.T, nc *nats.Conn, trigger jetStreamTrigger) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: trigger.Stream, Subjects: []string{"events.>"}}); err != nil {
		t.Fatal(err)
	}
	c, err := js.CreateConsumer(ctx, trigger.Stream, jetstream.ConsumerConfig{Durable: trigger.Consumer, AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	for range 6 {
		if _, err := js.Publish(ctx, "events.order_placed", []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	batch, err := c.Fetch(3)
	if err != nil {
		t.Fatal(err)
	}
	first := true
	for m := range batch.Messages() {
		if first {
			if err := m.DoubleAck(ctx); err != nil {
				t.Fatal(err)
			}
		}
		first = false
	}
}

// scalerLag is the sum that the scaler reports; -1 where it would report an error, since the consumer is not there.
func scalerLag(t *testing.T, endpoint string, trigger jetStreamTrigger) int {
	t.Helper()
	query := url.Values{"acc": {cmp.Or(trigger.AccountID, trigger.Account)}, "consumers": {"true"}, "config": {"true"}}
	resp, err := http.Get("http://" + endpoint + "/jsz?" + query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Accounts []struct {
			ID      string `json:"id"`
			Name    string `json:"name"`
			Streams []struct {
				Name      string `json:"name"`
				Consumers []struct {
					Name       string `json:"name"`
					Pending    int    `json:"num_pending"`
					AckPending int    `json:"num_ack_pending"`
				} `json:"consumer_detail"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	for _, a := range answer.Accounts {
		for _, s := range a.Streams {
			for _, c := range s.Consumers {
				if (a.Name == trigger.Account || a.ID == trigger.AccountID) && s.Name == trigger.Stream && c.Name == trigger.Consumer {
					return c.Pending + c.AckPending
				}
			}
		}
	}
	return -1
}

// The checks find what they are there for.
func TestKubernetesChecks(t *testing.T) {
	t.Parallel()
	type change func(w *workload, one *core.Container)
	for what, broken := range map[string]change{
		"does not match labels": func(w *workload, _ *core.Container) { w.selector["app.kubernetes.io/name"] = "other" },
		"image":                 func(_ *workload, c *core.Container) { c.Image = "shop/email:latest" },
		"runs something else":   func(_ *workload, c *core.Container) { c.Command = []string{"/bin/sh"} },
		"WORKER_CONCURENCY": func(_ *workload, c *core.Container) {
			c.Env = append(c.Env, core.EnvVar{Name: "WORKER_CONCURENCY", Value: "4"})
		},
		"terminationGracePeriod":     func(w *workload, _ *core.Container) { *w.template.Spec.TerminationGracePeriodSeconds = 40 },
		"preStop":                    func(_ *workload, c *core.Container) { c.Lifecycle = &core.Lifecycle{} },
		"GOMEMLIMIT":                 func(_ *workload, c *core.Container) { c.Resources.Limits = nil },
		"no budget":                  func(w *workload, _ *core.Container) { w.template.Labels["app.kubernetes.io/name"] = "other" },
		"no policy":                  func(w *workload, _ *core.Container) { delete(w.template.Labels, "app.kubernetes.io/part-of") },
		"the readiness probe":        func(_ *workload, c *core.Container) { c.ReadinessProbe.HTTPGet.Path = "/healthz" },
		"the liveness probe":         func(_ *workload, c *core.Container) { c.LivenessProbe.HTTPGet.Path = "/readyz" },
		"it serves on":               func(_ *workload, c *core.Container) { c.Ports[0].ContainerPort = 8081 },
		"the start is given":         func(_ *workload, c *core.Container) { c.StartupProbe.FailureThreshold = 30 },
		"runAsNonRoot":               func(w *workload, _ *core.Container) { w.template.Spec.SecurityContext.RunAsNonRoot = nil },
		"seccompProfile":             func(w *workload, _ *core.Container) { w.template.Spec.SecurityContext.SeccompProfile = nil },
		"unrestricted capabilities":  func(_ *workload, c *core.Container) { c.SecurityContext.Capabilities = nil },
		"its root can be written":    func(_ *workload, c *core.Container) { c.SecurityContext.ReadOnlyRootFilesystem = nil },
		"a token of the cluster":     func(w *workload, _ *core.Container) { w.template.Spec.AutomountServiceAccountToken = nil },
		"each Service of":            func(w *workload, _ *core.Container) { w.template.Spec.EnableServiceLinks = nil },
		"can be read by everybody":   func(w *workload, _ *core.Container) { w.template.Spec.Volumes[1].Secret.DefaultMode = nil },
		"it works in /data":          func(_ *workload, c *core.Container) { c.VolumeMounts[0].MountPath = "/files" },
		"is not mounted":             func(_ *workload, c *core.Container) { c.VolumeMounts[2].MountPath = "/files" },
		"volume smpt is not there":   func(_ *workload, c *core.Container) { c.VolumeMounts[2].Name = "smpt" },
		"less of them in a roll-out": func(w *workload, _ *core.Container) { w.strategy = nil },
		"CPU": func(_ *workload, c *core.Container) {
			c.Resources.Limits[core.ResourceCPU] = *c.Resources.Requests.Cpu()
		},
		"nobody asks for its metrics": func(_ *workload, c *core.Container) { c.Ports[0].Name = "web" },
	} {
		c := render(t)
		w := c.workloads["email"]
		broken(&w, &w.template.Spec.Containers[0])
		c.workloads["email"] = w
		if got := fmt.Sprint(c.problems("email")); !strings.Contains(got, what) {
			t.Errorf("%s: found %s", what, got)
		}
	}
	c := render(t)
	inventory := c.workloads["inventory"]
	inventory.template.Spec.Containers[0].Env = inventory.template.Spec.Containers[0].Env[1:]
	if got := fmt.Sprint(c.problems("inventory")); !strings.Contains(got, "order of an article") {
		t.Errorf("inventory that is not pinned: found %s", got)
	}
	if err := c.take("apps/v1 Deployment", "email", []byte(`{"spec":{"replica":2}}`)); err == nil {
		t.Error("a field that is not there was taken")
	}
}
