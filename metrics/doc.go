// Package metrics has Prometheus metrics of worker.Runners. It is a module of its own, so that only those who import it download
// github.com/prometheus/client_golang.
//
//	m, err := metrics.New(metrics.Options{})                 // one for each Runner
//	…
//	r, err := worker.New(nc, cfg, ackfloor.Chain(h, m.Wrap)) // observes the handler
//	…
//	prometheus.MustRegister(m.Collector(r))                  // or any other registry
//
// With worker.Main the same is m.Wrap around the handler, and m.Part among the parts.
//
// # Two sources
//
// What a Runner counts and holds is read from Runner.Status when somebody scrapes, so it costs a worker nothing between scrapes. Asking costs no
// request to the server either: where the consumer stands is what the Runner saw when it last looked, every five seconds at the latest, and
// ackfloor_look_age_seconds tells how old that is.
//
// What only a handler's call shows, how long it took and how old its message was, is observed by Wrap. That allocates nothing, and costs 0.1 to
// 0.2 µs a call.
//
// # Labels
//
// Every metric has stream_name and consumer_name, named as the NATS exporters name them. No label holds a subject, a sequence, a key or the text of an error:
// the number of series does not grow with what is in a stream. Options.Kind tells kinds of messages apart, of a list that is given.
//
// # Zeros that are none
//
// A server that is shutting down may answer that a consumer is at zero in every respect. So a position of all zeros is believed when two looks in a row
// say it, and until then the last one is shown; before there is one, these metrics are missing, instead of being zero.
//
// Several Runners in one process have a Metrics each, and may share a registry.
package metrics
