//go:build race && unix

package examples_test

const raceDetector = true
