// Package drivers holds the tests of package once that need database drivers, in a module of its own, so that nobody else downloads these: SQLite in process,
// PostgreSQL and MariaDB where their programs are installed.
//
// The proof that nothing is done twice and nothing is left out, whatever is killed:
//
//	go test ./once/drivers -run TestKilled -v -kill.messages 20000 -kill.seed 7
package drivers
