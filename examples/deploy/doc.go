// Package deploy holds what puts the three example services on machines: compose.yaml and kubernetes/ here, nats/ for the servers, and each service's
// own unit and Dockerfile in its folder. It has no code but tests, which read these files with the libraries of those who will, and run what can be run
// without a container engine. docs/howto-deploy.md tells how they are used.
//
// It is a module of its own, so that nobody else downloads those libraries.
package deploy
