//go:build !linux

package deploy

const containedVariable = "ACKFLOOR_DEPLOY_CONTAINED"

// contained is for Linux.
func contained() {}
