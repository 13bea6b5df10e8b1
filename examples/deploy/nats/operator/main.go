// Command operator makes the keys of nats-operator.conf, in which an operator and an account vouch for the users instead of a list of them in the server's
// configuration. It reads who the users are, and what each may do, from nats.conf, and takes the nkeys that ca has made for them:
//
//	ca inventory email analytics shop admin observer
//	operator -conf nats.conf -dir keys
//	nats-server -c nats-operator.conf
//
// It writes NAME.creds of each user, which is what NATS_CREDS names: a token with the user's rights, signed by the account, and the user's seed. It writes
// operator.conf, which nats-operator.conf includes: the operator's token, and those of the account SHOP and of the system account. And it writes the seeds of the
// operator and of both accounts, as operator.seed, account.seed and system.seed; keep these away from the server's machine, since whoever has account.seed can make
// users with any rights. A second call takes the seeds that are there, and makes all tokens anew: also to change a right, or to add a user.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// Exit codes of sysexits.h.
const (
	exitUsage  = 64
	exitFailed = 1
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("operator", flag.ContinueOnError)
	flags.SetOutput(stderr)
	conf := flags.String("conf", "nats.conf", "the configuration that has the users")
	dir := flags.String("dir", "keys", "where the seeds are, and where the files go")
	days := flags.Int("days", 365, "how long the users' tokens are valid; 0: for ever")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "operator: %q: it takes no names; the users are those of %s\n", flags.Arg(0), *conf)
		return exitUsage
	case *days < 0 || *days > 3650:
		fmt.Fprintf(stderr, "operator: -days is %d: it takes 0 to 3650\n", *days)
		return exitUsage
	}
	s := signer{dir: *dir, say: func(file string) { fmt.Fprintln(stdout, file) }}
	if *days > 0 {
		s.expires = time.Now().Add(time.Duration(*days) * 24 * time.Hour).Unix()
	}
	if err := s.sign(*conf); err != nil {
		fmt.Fprintf(stderr, "operator: %v\n", err)
		return exitFailed
	}
	return 0
}

// signer makes the tokens.
type signer struct {
	dir     string
	expires int64 // of the users' tokens, seconds since 1970; 0: never
	say     func(file string)
}

// sign makes everything: the operator, the two accounts, and of each user in conf the credentials.
func (s signer) sign(conf string) error {
	options, err := server.ProcessConfigFile(conf)
	if err != nil {
		return err
	}
	if len(options.Nkeys) == 0 {
		return fmt.Errorf("%s has no users with an nkey", conf)
	}
	operator, err := s.pair("operator", nkeys.CreateOperator)
	if err != nil {
		return err
	}
	shop, err := s.pair("account", nkeys.CreateAccount)
	if err != nil {
		return err
	}
	system, err := s.pair("system", nkeys.CreateAccount)
	if err != nil {
		return err
	}
	if err := s.server(operator, shop, system); err != nil {
		return err
	}
	seeds, err := s.users()
	if err != nil {
		return err
	}
	for _, u := range options.Nkeys {
		name, ok := seeds[u.Nkey]
		if !ok {
			return fmt.Errorf("%s has a user %s of which there is no seed in %s: make it with ca", conf, u.Nkey, s.dir)
		}
		if err := s.credentials(name, u, shop); err != nil {
			return err
		}
	}
	return nil
}

// pair reads a seed, or makes it.
func (s signer) pair(name string, create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, error) {
	file := filepath.Join(s.dir, name+".seed")
	text, err := os.ReadFile(file)
	if err == nil {
		pair, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(text))))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return pair, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	pair, err := create()
	if err != nil {
		return nil, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	return pair, s.write(name+".seed", append(seed, '\n'), 0o600)
}

// users are the names of the seeds that ca has made, by their public keys.
func (s signer) users() (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(s.dir, "*.nk"))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, file := range files {
		pair, _, err := readUser(file)
		if err != nil {
			return nil, err
		}
		public, err := pair.PublicKey()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out[public] = strings.TrimSuffix(filepath.Base(file), ".nk")
	}
	return out, nil
}

// readUser reads a user's seed.
func readUser(file string) (pair nkeys.KeyPair, seed []byte, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		pair, err = nkeys.ParseDecoratedUserNKey(text)
	}
	if err == nil {
		seed, err = pair.Seed()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return pair, seed, nil
}

// server writes what the server has to know: whom it trusts, and the accounts.
func (s signer) server(operator, shop, system nkeys.KeyPair) error {
	keys := make([]string, 3)
	for i, pair := range []nkeys.KeyPair{operator, shop, system} {
		var err error
		if keys[i], err = pair.PublicKey(); err != nil {
			return err
		}
	}
	trusted := jwt.NewOperatorClaims(keys[0])
	trusted.Name, trusted.SystemAccount = "shop", keys[2]
	account := jwt.NewAccountClaims(keys[1])
	account.Name = "SHOP"
	// JetStream is off in an account that says nothing of it. The limits are the server's.
	account.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit, MaxAckPending: jwt.NoLimit}
	own := jwt.NewAccountClaims(keys[2])
	own.Name = "SYS"
	var tokens [3]string
	for i, claims := range []jwt.Claims{trusted, account, own} {
		var err error
		if tokens[i], err = claims.Encode(operator); err != nil {
			return fmt.Errorf("signing: %w", err)
		}
	}
	return s.write("operator.conf", fmt.Appendf(nil, `# Whom the server trusts, and the accounts that the operator has signed: SHOP, in which all users are, and SYS, the servers' own.
operator: %s
system_account: %s
resolver: MEMORY
resolver_preload {
  %s: %s
  %s: %s
}
`, tokens[0], keys[2], keys[1], tokens[1], keys[2], tokens[2]), 0o644)
}

// credentials writes a user's: the rights are those of the configuration, the key is the one that ca has made.
func (s signer) credentials(name string, u *server.NkeyUser, account nkeys.KeyPair) error {
	_, seed, err := readUser(filepath.Join(s.dir, name+".nk"))
	if err != nil {
		return err
	}
	claims := jwt.NewUserClaims(u.Nkey)
	claims.Name, claims.Expires = name, s.expires
	if p := u.Permissions; p != nil {
		if p.Publish != nil {
			claims.Pub.Allow.Add(p.Publish.Allow...)
			claims.Pub.Deny.Add(p.Publish.Deny...)
		}
		if p.Subscribe != nil {
			claims.Sub.Allow.Add(p.Subscribe.Allow...)
			claims.Sub.Deny.Add(p.Subscribe.Deny...)
		}
		if p.Response != nil {
			claims.Resp = &jwt.ResponsePermission{MaxMsgs: p.Response.MaxMsgs, Expires: p.Response.Expires}
		}
	}
	token, err := claims.Encode(account)
	if err != nil {
		return fmt.Errorf("signing %s: %w", name, err)
	}
	text, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		return fmt.Errorf("%s.creds: %w", name, err)
	}
	return s.write(name+".creds", text, 0o600)
}

// write writes a file in one step, so that who reads it meanwhile finds all of it.
func (s signer) write(file string, data []byte, mode os.FileMode) error {
	path := filepath.Join(s.dir, file)
	next, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = next.Write(data)
	if err = errors.Join(err, next.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	s.say(path)
	return nil
}
