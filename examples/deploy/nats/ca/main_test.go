package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ca runs the program.
func ca(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	var b bytes.Buffer
	code = run(args, &b, &b)
	return code, b.String()
}

// Secrets can be read by their owner only, and nothing else is in the folder than what was said.
func TestSecretsAreTheOwners(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	if code, out := ca(t, "-dir", dir, "email"); code != 0 || strings.Count(out, "\n") != 7 {
		t.Fatalf("%d\n%s", code, out)
	}
	files := map[string]fs.FileMode{"ca.key": 0o600, "ca.pem": 0o644, "server.key": 0o600, "server.pem": 0o644, "email.key": 0o600, "email.pem": 0o644, "email.nk": 0o600, "nkeys.conf": 0o644}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(files) {
		t.Fatalf("%v %v", err, entries)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode().Perm()&^files[e.Name()] != 0 {
			t.Errorf("%s: %v %v", e.Name(), err, info.Mode())
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if secret := bytes.Contains(text, []byte("PRIVATE")) || bytes.HasPrefix(text, []byte("SU")); err != nil || secret != (files[e.Name()] == 0o600) {
			t.Errorf("%s: %v, a secret: %v", e.Name(), err, secret)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", err, info.Mode())
	}
}

// A second call adds users and changes nothing that is there; of one without the authority's key it makes nothing.
func TestUsersAreAdded(t *testing.T) {
	dir := t.TempDir()
	ca(t, "-dir", dir, "email")
	before := contents(t, dir)
	if code, out := ca(t, "-dir", dir, "email", "analytics"); code != 0 {
		t.Fatal(out)
	}
	after := contents(t, dir)
	for name, text := range before {
		if name != "nkeys.conf" && after[name] != text {
			t.Errorf("%s has changed", name)
		}
	}
	if got := after["nkeys.conf"]; strings.Count(got, "NKEY_ANALYTICS: U") != 1 || strings.Count(got, "NKEY_EMAIL: U") != 1 || strings.Contains(got, ": SU") {
		t.Errorf("nkeys.conf:\n%s", got)
	}
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	if code, out := ca(t, "-dir", dir, "inventory"); code != exitFailed || !strings.Contains(out, "ca.key") || len(contents(t, dir)) != len(after)-1 {
		t.Errorf("without its key: %d\n%s", code, out)
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = string(text)
	}
	return out
}

// The certificates serve for what they are for: the server's for its names, a user's for a client and not for a server.
func TestWhatCertificatesAreFor(t *testing.T) {
	dir := t.TempDir()
	if code, out := ca(t, "-dir", dir, "-hosts", "nats.example.com, 127.0.0.1", "email"); code != 0 {
		t.Fatal(out)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(contents(t, dir)["ca.pem"]))
	for _, c := range []struct {
		file, name string
		usage      x509.ExtKeyUsage
		ok         bool
	}{
		{"server", "nats.example.com", x509.ExtKeyUsageServerAuth, true},
		{"server", "127.0.0.1", x509.ExtKeyUsageServerAuth, true},
		{"server", "other.example.com", x509.ExtKeyUsageServerAuth, false},
		{"server", "", x509.ExtKeyUsageClientAuth, true}, // of a cluster
		{"email", "", x509.ExtKeyUsageClientAuth, true},
		{"email", "", x509.ExtKeyUsageServerAuth, false},
	} {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, c.file+".pem"), filepath.Join(dir, c.file+".key"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: c.name, KeyUsages: []x509.ExtKeyUsage{c.usage}})
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// What makes no sense is refused before a file is written.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"Email"}, {"ca"}, {"server"}, {"../email"}, {"-days", "0"}, {"-nonsense"}} {
		dir := t.TempDir()
		if code, out := ca(t, append([]string{"-dir", dir}, args...)...); code != exitUsage || len(contents(t, dir)) != 0 {
			t.Errorf("%v: %d\n%s", args, code, out)
		}
	}
}
