package deploy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/pod-security-admission/api"
	podsecurity "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// cluster is what kubernetes/ renders to, each object in its own Go type.
type cluster struct {
	namespaces map[string]*core.Namespace
	configs    map[string]*core.ConfigMap
	services   map[string]*core.Service
	workloads  map[string]workload // Deployments and StatefulSets
	budgets    map[string]*policy.PodDisruptionBudget
	networks   map[string]*networking.NetworkPolicy
	monitors   map[string]*monitoring.PodMonitor
	scaled     map[string]*ScaledObject
}

// workload is what Deployments and StatefulSets have in common.
type workload struct {
	kind     string
	replicas *int32
	selector map[string]string
	template core.PodTemplateSpec
	claims   []core.PersistentVolumeClaim
	strategy *apps.RollingUpdateDeployment
	service  string // of a StatefulSet
}

// rendered is what kubectl kustomize makes of kubernetes/.
var rendered = sync.OnceValues(func() (resmap.ResMap, error) {
	return krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "kubernetes")
})

// render reads what is rendered, each object strictly: a field that its type does not have is an error.
func render(t *testing.T) *cluster {
	t.Helper()
	all, err := rendered()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{map[string]*core.Namespace{}, map[string]*core.ConfigMap{}, map[string]*core.Service{}, map[string]workload{}, map[string]*policy.PodDisruptionBudget{},
		map[string]*networking.NetworkPolicy{}, map[string]*monitoring.PodMonitor{}, map[string]*ScaledObject{}}
	for _, r := range all.Resources() {
		text, err := r.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.take(r.GetApiVersion()+" "+r.GetKind(), r.GetName(), text); err != nil {
			t.Errorf("%s %s: %v", r.GetKind(), r.GetName(), err)
		}
		if want := map[bool]string{true: "", false: "shop"}[r.GetKind() == "Namespace"]; r.GetNamespace() != want {
			t.Errorf("%s %s is in namespace %q", r.GetKind(), r.GetName(), r.GetNamespace())
		}
	}
	return c
}

func (c *cluster) take(kind, name string, text []byte) error {
	switch kind {
	case "v1 Namespace":
		return strict(c.namespaces, name, text)
	case "v1 ConfigMap":
		return strict(c.configs, name, text)
	case "v1 Service":
		return strict(c.services, name, text)
	case "policy/v1 PodDisruptionBudget":
		return strict(c.budgets, name, text)
	case "networking.k8s.io/v1 NetworkPolicy":
		return strict(c.networks, name, text)
	case "monitoring.coreos.com/v1 PodMonitor":
		return strict(c.monitors, name, text)
	case "keda.sh/v1alpha1 ScaledObject":
		return strict(c.scaled, name, text)
	case "apps/v1 Deployment":
		var d apps.Deployment
		if err := decode(text, &d); err != nil {
			return err
		}
		c.workloads[name] = workload{"Deployment", d.Spec.Replicas, d.Spec.Selector.MatchLabels, d.Spec.Template, nil, d.Spec.Strategy.RollingUpdate, ""}
	case "apps/v1 StatefulSet":
		var s apps.StatefulSet
		if err := decode(text, &s); err != nil {
			return err
		}
		c.workloads[name] = workload{"StatefulSet", s.Spec.Replicas, s.Spec.Selector.MatchLabels, s.Spec.Template, s.Spec.VolumeClaimTemplates, nil, s.Spec.ServiceName}
	default:
		return fmt.Errorf("%s is not known to this test", kind)
	}
	return nil
}

func strict[T any](to map[string]*T, name string, text []byte) error {
	to[name] = new(T)
	return decode(text, to[name])
}

// decode is what an API server does that is asked to be strict: no unknown field, none twice, no number where there is to be a string.
// (yaml.UnmarshalStrict of sigs.k8s.io/yaml would make a string of it.)
func decode(text []byte, into any) error {
	strict, err := json.UnmarshalStrict(text, into)
	return errors.Join(append(strict, err)...)
}

func TestKubernetes(t *testing.T) {
	t.Parallel()
	c := render(t)
	for _, name := range services {
		for _, what := range c.problems(name) {
			t.Errorf("%s: %s", name, what)
		}
	}
	if got := len(c.workloads) + len(c.namespaces) + len(c.configs) + len(c.monitors) + len(c.scaled); got != 7 {
		t.Errorf("%d objects: one is not looked at", got)
	}
	if level := c.namespaces["shop"].Labels[api.EnforceLevelLabel]; level != "restricted" {
		t.Errorf("the namespace enforces %q", level)
	}
}

// problems is what is wrong with a service's objects, beyond what their types say.
func (c *cluster) problems(name string) (out []string) {
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	w, ok := c.workloads[name]
	if !ok || len(w.template.Spec.Containers) != 1 {
		return []string{"no workload with one container"}
	}
	pod, one := w.template.Spec, w.template.Spec.Containers[0]
	env := c.env(one)
	bad(selects(w.selector, w.template.Labels), "selector %v does not match labels %v", w.selector, w.template.Labels)
	bad(pinned(one.Image) && strings.Contains(one.Image, "/"), "image %q", one.Image)
	bad(one.Command == nil && one.Args == nil, "it runs something else than its image says")
	out = append(out, envProblems(name, env)...)
	out = append(out, probeProblems(one, env)...)
	out = append(out, securityProblems(w.template)...)

	grace, need := time.Duration(*pod.TerminationGracePeriodSeconds)*time.Second, drainTimeout(name, env)+afterDrain
	bad(grace > need-time.Second, "terminationGracePeriodSeconds %v, want %v at least", grace, need)
	bad(one.Lifecycle == nil, "a preStop hook: nobody connects to a worker, so there is nothing to wait for")
	memory := one.Resources.Limits.Memory()
	bad(memoryFits(env["GOMEMLIMIT"], memory.Value()) && one.Resources.Requests.Memory().Equal(*memory), "GOMEMLIMIT %s, memory %v", env["GOMEMLIMIT"], one.Resources)
	_, throttled := one.Resources.Limits[core.ResourceCPU]
	bad(!throttled && !one.Resources.Requests.Cpu().IsZero(), "CPU %v: a request, and no limit, which would hold up leases", one.Resources)
	out = append(out, c.volumeProblems(w, env)...)

	b := c.budgets[name]
	bad(b != nil && selects(b.Spec.Selector.MatchLabels, w.template.Labels) && b.Spec.MinAvailable == nil && b.Spec.MaxUnavailable.IntValue() == 1,
		"no budget of one pod at a time")
	for _, direction := range []networking.PolicyType{networking.PolicyTypeIngress, networking.PolicyTypeEgress} {
		bad(slices.ContainsFunc(mapValues(c.networks), func(n *networking.NetworkPolicy) bool {
			return selects(n.Spec.PodSelector.MatchLabels, w.template.Labels) && slices.Contains(n.Spec.PolicyTypes, direction)
		}), "no policy for %s", direction)
	}
	bad(slices.ContainsFunc(mapValues(c.monitors), func(m *monitoring.PodMonitor) bool {
		e := m.Spec.PodMetricsEndpoints[0]
		return selects(m.Spec.Selector.MatchLabels, w.template.Labels) && e.Path == "/metrics" && e.Port != nil && *e.Port == one.Ports[0].Name
	}), "nobody asks for its metrics")

	several := w.replicas == nil || *w.replicas > 1
	bad(!several || len(w.claims) == 0 && w.strategy != nil && w.strategy.MaxUnavailable.IntValue() == 0,
		"several of them, each with files of its own, or less of them in a roll-out")
	bad(name != "inventory" || !several || env["WORKER_PINNED_TTL"] != "" && env["DATABASE_URL_FILE"] != "",
		"several of them don't keep the order of an article, or don't share the stock")
	bad(w.kind != "StatefulSet" || c.services[w.service] != nil && selects(c.services[w.service].Spec.Selector, w.template.Labels),
		"service %q is not there", w.service)
	bad(name != "analytics" || !several && len(w.claims) == 1, "analytics has one process and a disk")
	return out
}

// env is what the container finds, as far as it is no secret.
func (c *cluster) env(one core.Container) map[string]string {
	env := map[string]string{}
	for _, from := range one.EnvFrom {
		if m := c.configs[from.ConfigMapRef.Name]; m != nil {
			maps.Copy(env, m.Data)
		}
	}
	for _, e := range one.Env {
		env[e.Name] = e.Value
	}
	return env
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return len(selector) > 0
}

func mapValues[T any](m map[string]T) (out []T) {
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// probeProblems: each probe asks where the worker serves, for what it is meant for, and the start is given the time that it may take.
func probeProblems(one core.Container, env map[string]string) (out []string) {
	if len(one.Ports) != 1 || env["WORKER_HTTP_ADDR"] != fmt.Sprintf("0.0.0.0:%d", one.Ports[0].ContainerPort) {
		return []string{fmt.Sprintf("it serves on %s, and its port is %v", env["WORKER_HTTP_ADDR"], one.Ports)}
	}
	for what, p := range map[string]struct {
		probe *core.Probe
		path  string
	}{"startup": {one.StartupProbe, "/livez"}, "liveness": {one.LivenessProbe, "/livez"}, "readiness": {one.ReadinessProbe, "/readyz"}} {
		if p.probe == nil || p.probe.HTTPGet == nil || p.probe.HTTPGet.Path != p.path || p.probe.HTTPGet.Port.StrVal != one.Ports[0].Name {
			out = append(out, fmt.Sprintf("the %s probe is %v, want %s on port %s", what, p.probe, p.path, one.Ports[0].Name))
		}
	}
	if s := one.StartupProbe; s != nil && s.PeriodSeconds*s.FailureThreshold < 180 { // the server, the stream, what it opens: a minute each
		out = append(out, fmt.Sprintf("the start is given %d s", s.PeriodSeconds*s.FailureThreshold))
	}
	return out
}

// securityProblems asks the code by which a cluster admits pods, at its strictest level, and for what that leaves out.
func securityProblems(pod core.PodTemplateSpec) (out []string) {
	evaluator, err := podsecurity.NewEvaluator(podsecurity.DefaultChecks(), nil)
	if err != nil {
		return []string{err.Error()}
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, r := range evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
		if !r.Allowed {
			out = append(out, r.ForbiddenReason+": "+r.ForbiddenDetail)
		}
	}
	one := pod.Spec.Containers[0]
	if s := one.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
		out = append(out, "its root can be written to")
	}
	if s := pod.Spec.SecurityContext; s == nil || s.RunAsUser == nil || *s.RunAsUser < 1000 || s.FSGroup == nil {
		out = append(out, "it has no user of its own, or its volumes are of another group")
	}
	if a := pod.Spec.AutomountServiceAccountToken; a == nil || *a {
		out = append(out, "it is given a token of the cluster")
	}
	if l := pod.Spec.EnableServiceLinks; l == nil || *l {
		out = append(out, "each Service of the namespace sets variables of it")
	}
	return out
}

// volumeProblems: what it names as files is mounted, secrets can't be read by others, and where it works can be written to.
func (c *cluster) volumeProblems(w workload, env map[string]string) (out []string) {
	volumes := map[string]bool{}
	for _, v := range w.template.Spec.Volumes {
		volumes[v.Name] = true
		if s := v.Secret; s != nil && (s.DefaultMode == nil || *s.DefaultMode&0o7 != 0) {
			out = append(out, fmt.Sprintf("secret %s can be read by everybody", s.SecretName))
		}
	}
	for _, v := range w.claims {
		volumes[v.Name] = true
	}
	at := map[string]bool{}
	for _, m := range w.template.Spec.Containers[0].VolumeMounts {
		at[m.MountPath] = true
		if !volumes[m.Name] {
			out = append(out, fmt.Sprintf("volume %s is not there", m.Name))
		}
	}
	if !at["/data"] {
		out = append(out, "it works in /data, which can't be written to")
	}
	for name, value := range env {
		if folder := value[:max(0, strings.LastIndex(value, "/"))]; strings.HasPrefix(value, "/") && !at[folder] {
			out = append(out, fmt.Sprintf("%s=%s is not mounted", name, value))
		}
	}
	return out
}
