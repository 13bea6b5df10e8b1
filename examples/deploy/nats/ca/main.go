// Command ca makes what nats.conf needs and no repository should hold: a certificate authority, the certificate of the server, and for each
// user a client certificate and an nkey.
//
//	ca -dir keys -hosts nats.example.com,10.0.0.7 inventory email analytics
//
// It writes ca.pem, server.pem and server.key; of each user NAME.pem, NAME.key and NAME.nk, the seed; and nkeys.conf, the users' public keys as
// nats.conf includes them. Keys and seeds can be read by their owner only. What is there stays: a second call with another user adds that one, as
// long as ca.key is kept. Keep that away from the server's machine; whoever has it can make certificates of any name.
package main

import (
	"crypto/ecdsa"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nkeys"
)

// Exit codes of sysexits.h.
const (
	exitUsage  = 64
	exitFailed = 1
)

var name = regexp.MustCompile(`^[a-z][a-z0-9_]*$`) // of a user: a part of a file's name, and of a variable's in nkeys.conf

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("ca", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", "keys", "where the files go")
	hosts := flags.String("hosts", "localhost,127.0.0.1,::1", "names and addresses of the server, comma-separated")
	days := flags.Int("days", 365, "how long certificates are valid; that of the authority ten times as long")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	}
	for _, user := range flags.Args() {
		if !name.MatchString(user) || slices.Contains([]string{"ca", "server"}, user) {
			fmt.Fprintf(stderr, "ca: %q: a user's name takes small letters, digits and _, begins with a letter, and is neither ca nor server\n", user)
			return exitUsage
		}
	}
	if *days < 1 || *days > 3650 {
		fmt.Fprintf(stderr, "ca: -days is %d: it takes 1 to 3650\n", *days)
		return exitUsage
	}
	k := keys{dir: *dir, valid: time.Duration(*days) * 24 * time.Hour, now: time.Now(), say: func(file string) { fmt.Fprintln(stdout, file) }}
	if err := k.make(strings.Split(*hosts, ","), flags.Args()); err != nil {
		fmt.Fprintf(stderr, "ca: %v\n", err)
		return exitFailed
	}
	return 0
}

// keys is the folder.
type keys struct {
	dir   string
	valid time.Duration
	now   time.Time
	say   func(file string) // for each that is written
}

// make makes what is missing.
func (k keys) make(hosts, users []string) error {
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return err
	}
	authority, err := k.authority()
	if err != nil {
		return err
	}
	if err := k.certificate(authority, "server", hosts); err != nil {
		return err
	}
	for _, user := range users {
		if err := errors.Join(k.certificate(authority, user, nil), k.nkey(user)); err != nil {
			return err
		}
	}
	return k.publicKeys()
}

// nkey makes the seed of a user.
func (k keys) nkey(user string) error {
	if k.there(user + ".nk") {
		return nil
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	if err != nil {
		return err
	}
	return k.write(user+".nk", append(seed, '\n'), 0o600)
}

// publicKeys writes nkeys.conf anew, of all seeds that are there.
func (k keys) publicKeys() error {
	seeds, err := filepath.Glob(filepath.Join(k.dir, "*.nk"))
	if err != nil {
		return err
	}
	var out strings.Builder
	out.WriteString("# The public keys of the users, by which the server knows them.\n")
	for _, file := range seeds {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		pair, err := nkeys.ParseDecoratedUserNKey(text)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		public, err := pair.PublicKey()
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		pair.Wipe()
		user := strings.TrimSuffix(filepath.Base(file), ".nk")
		fmt.Fprintf(&out, "NKEY_%s: %s\n", strings.ToUpper(user), public)
	}
	return k.replace("nkeys.conf", []byte(out.String()))
}

func (k keys) path(file string) string { return filepath.Join(k.dir, file) }

func (k keys) there(file string) bool {
	_, err := os.Stat(k.path(file))
	return err == nil
}

// write makes a file. One that is there is never written over.
func (k keys) write(file string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(k.path(file), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		k.say(k.path(file))
	}
	return err
}

// replace writes a file in one step, so that a server that reads it finds all of it.
func (k keys) replace(file string, data []byte) error {
	next := k.path(file) + ".new"
	if err := os.WriteFile(next, data, 0o644); err != nil {
		return err
	}
	return os.Rename(next, k.path(file))
}

// pair is a certificate and its key.
type pair struct {
	der []byte
	key *ecdsa.PrivateKey
}
