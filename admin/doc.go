// Package admin shows what a worker does: a status page with the stream as a tape and the cursors on it, the same as JSON, and answers to health probes.
//
//	worker.Main(handler, admin.HTTP)
//
// serves at WORKER_HTTP_ADDR:
//
//	/         the page, live
//	/events   what the page listens to (server-sent events)
//	/status   the same as JSON
//	/livez    200 while the worker's loops run, whatever the NATS server does
//	/readyz   200 while it is bound and its pulls are answered; else 503, and why
//
// Nothing there changes anything, and nothing there shows a secret or a payload. The server is asked by one goroutine, whoever looks. See
// docs/howto-status-page.md.
package admin
