// Package nats holds the server's configuration for the three example services with the least rights: nats.conf with a list of users and nats-operator.conf with an
// operator and an account, setup.sh, which makes their streams and consumers, ca, which makes certificates and nkeys, and operator, which makes tokens and credentials. It
// has no code but tests: they start a server with each configuration, run the services, and take the rights away one by one. docs/howto-permissions.md and docs/howto-deploy.md tell
// how it is used.
package nats
