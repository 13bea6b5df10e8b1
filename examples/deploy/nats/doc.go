// Package nats holds the server's configuration for the three example services with the least rights: nats.conf, setup.sh, which makes their
// streams and consumers, and ca, which makes certificates and nkeys. It has no code but tests: they start a server with that configuration, run the
// services, and take the rights away one by one. docs/howto-permissions.md tells how it is used.
package nats
