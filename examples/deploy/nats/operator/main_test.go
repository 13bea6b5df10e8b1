package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// conf is a configuration with one user, and the folder with that user's seed.
func conf(t *testing.T, more string) (file, dir, public string) {
	t.Helper()
	dir = t.TempDir()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, _ := pair.Seed()
	if public, err = pair.PublicKey(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "email.nk"), append(seed, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "nats.conf")
	text := "authorization { users: [\n{ nkey: " + public + `, permissions { publish { allow: ["a.>", "$JS.x"] }, subscribe { allow: ["_INBOX_email.>"] } } }` + "\n" + more + "\n] }"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file, dir, public
}

func operator(args ...string) (code int, out string) {
	var b bytes.Buffer
	code = run(args, &b, &b)
	return code, b.String()
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The token of a user has the rights of the configuration and the key that was there, it is signed by the account, and that by the operator. Secrets can be read by their owner only.
func TestTokensAreThoseOfTheConfiguration(t *testing.T) {
	file, dir, public := conf(t, "")
	if code, out := operator("-conf", file, "-dir", dir); code != 0 || strings.Count(out, "\n") != 5 {
		t.Fatalf("%d\n%s", code, out)
	}
	creds := read(t, dir, "email.creds")
	token, err := jwt.ParseDecoratedJWT([]byte(creds))
	if err != nil {
		t.Fatal(err)
	}
	user, err := jwt.DecodeUserClaims(token)
	if err != nil {
		t.Fatal(err)
	}
	if user.Subject != public || user.Name != "email" || user.Expires == 0 || !slices.Equal(user.Pub.Allow, []string{"a.>", "$JS.x"}) || !slices.Equal(user.Sub.Allow, []string{"_INBOX_email.>"}) ||
		len(user.Pub.Deny)+len(user.Sub.Deny) > 0 || user.Resp != nil {
		t.Errorf("the token says %+v", user)
	}
	if pair, err := jwt.ParseDecoratedUserNKey([]byte(creds)); err != nil {
		t.Error(err)
	} else if own, _ := pair.PublicKey(); own != public {
		t.Errorf("the seed is %s's", own)
	}
	if text := read(t, dir, "operator.conf"); !strings.Contains(text, user.Issuer+": ") || strings.Contains(text, strings.TrimSpace(read(t, dir, "operator.seed"))) {
		t.Errorf("operator.conf:\n%s", text)
	}
	for name, mode := range map[string]fs.FileMode{"operator.seed": 0o600, "account.seed": 0o600, "system.seed": 0o600, "email.creds": 0o600, "operator.conf": 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm()&^mode != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A second call keeps the keys, so that who has credentials goes on with them, and changes the rights.
func TestKeysAreKept(t *testing.T) {
	file, dir, _ := conf(t, "")
	operator("-conf", file, "-dir", dir)
	before := read(t, dir, "account.seed") + read(t, dir, "operator.seed") + read(t, dir, "system.seed")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(read(t, file), `"a.>"`, `"b.>"`)), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out := operator("-conf", file, "-dir", dir, "-days", "0"); code != 0 {
		t.Fatal(out)
	}
	if after := read(t, dir, "account.seed") + read(t, dir, "operator.seed") + read(t, dir, "system.seed"); after != before {
		t.Error("a seed has changed")
	}
	token, _ := jwt.ParseDecoratedJWT([]byte(read(t, dir, "email.creds")))
	if user, err := jwt.DecodeUserClaims(token); err != nil || user.Expires != 0 || !slices.Contains(user.Pub.Allow, "b.>") {
		t.Errorf("%v, the token says %+v", err, user)
	}
}

// What makes no sense is refused, and says why.
func TestRefusals(t *testing.T) {
	stranger, _ := nkeys.CreateUser()
	public, _ := stranger.PublicKey()
	file, dir, _ := conf(t, "{ nkey: "+public+" }")
	none := filepath.Join(dir, "none.conf")
	if err := os.WriteFile(none, []byte("port: 4222"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		code  int
		words string
		args  []string
	}{
		{exitFailed, public, []string{"-conf", file, "-dir", dir}},
		{exitFailed, "no users", []string{"-conf", none, "-dir", dir}},
		{exitFailed, "missing.conf", []string{"-conf", filepath.Join(dir, "missing.conf"), "-dir", dir}},
		{exitUsage, "it takes no names", []string{"email"}},
		{exitUsage, "0 to 3650", []string{"-days", "-1"}},
		{exitUsage, "nonsense", []string{"-nonsense"}},
	} {
		if code, out := operator(tt.args...); code != tt.code || !strings.Contains(out, tt.words) {
			t.Errorf("%v: %d\n%s", tt.args, code, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "operator.seed"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := operator("-conf", file, "-dir", dir); code != exitFailed || !strings.Contains(out, "operator.seed") {
		t.Errorf("a broken seed: %d\n%s", code, out)
	}
}
