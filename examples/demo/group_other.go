//go:build !unix

package main

import "os/exec"

func launch(cmd *exec.Cmd, _ bool) error { return cmd.Start() }
