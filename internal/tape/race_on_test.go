//go:build race

package tape

const underRace = true
