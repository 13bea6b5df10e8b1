// Package systemd tells systemd what a worker does, over the socket of sd_notify: when it is ready, what it is at, that it stops, that it needs more time to stop, and
// that it makes progress. It is a module of its own, so that only those who run units download github.com/coreos/go-systemd.
//
//	worker.Main(h, systemd.Notify)
//
// With Type=notify in the unit, a start counts as done when the durable consumer is bound (READY=1), and `systemctl status` shows the cursor. With WatchdogSec, systemd kills
// a process whose loops do not go round: the signal is SIGABRT, on which Go prints all goroutines. Without NOTIFY_SOCKET in the environment nothing is done.
package systemd
