//go:build race

package examples_test

const raceDetector = true
