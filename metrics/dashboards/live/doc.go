// Package live tries the alerts and the dashboard of its parent folder with a real Prometheus and real worker processes. It is a module of its own and has
// tests only: they need the programs prometheus and promtool, and are skipped where those are not installed. With ACKFLOOR_NEED_PROMETHEUS=1 that is a failure.
package live
