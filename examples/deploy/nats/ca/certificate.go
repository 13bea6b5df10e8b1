package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"strings"
	"time"
)

const (
	early      = 5 * time.Minute // clocks differ
	serialBits = 127             // positive, and within the 20 bytes that RFC 5280 allows
)

// authority reads the certificate authority, or makes it. It signs certificates of servers and clients, and no other authority.
func (k keys) authority() (pair, error) {
	if k.there("ca.pem") {
		return k.read("ca")
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Ackfloor example CA"}, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return k.sign("ca", template, nil, 10*k.valid)
}

// certificate makes that of the server, which has hosts, or of a user.
func (k keys) certificate(authority pair, name string, hosts []string) error {
	if k.there(name + ".pem") {
		return nil
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if hosts != nil {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} // a server of a cluster is a client of the others
	}
	for _, h := range hosts {
		h = strings.TrimSpace(h)
		switch ip := net.ParseIP(h); {
		case h == "":
			return errors.New("-hosts: a name is empty")
		case ip != nil:
			template.IPAddresses = append(template.IPAddresses, ip)
		default:
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	_, err := k.sign(name, template, &authority, k.valid)
	return err
}

// sign makes a key and a certificate for it, and writes both. Without an authority it signs itself.
func (k keys) sign(name string, template *x509.Certificate, authority *pair, valid time.Duration) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return pair{}, err
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1))
	template.NotBefore, template.NotAfter = k.now.Add(-early), k.now.Add(valid)
	parent, signer := template, key
	if authority != nil {
		if parent, err = x509.ParseCertificate(authority.der); err != nil {
			return pair{}, err
		}
		signer = authority.key
		if template.NotAfter.After(parent.NotAfter) {
			template.NotAfter = parent.NotAfter
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return pair{}, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pair{}, err
	}
	// The key first: a certificate that is there means that its key is.
	if err := k.write(name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600); err != nil {
		return pair{}, err
	}
	return pair{der, key}, k.write(name+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
}

// read reads a certificate and its key.
func (k keys) read(name string) (pair, error) {
	der, err := k.block(name + ".pem")
	if err != nil {
		return pair{}, err
	}
	secret, err := k.block(name + ".key")
	if err != nil {
		return pair{}, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(secret)
	if err != nil {
		return pair{}, fmt.Errorf("%s: %w", k.path(name+".key"), err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return pair{}, fmt.Errorf("%s holds a %T, not the ECDSA key that this program makes", k.path(name+".key"), parsed)
	}
	return pair{der, key}, nil
}

func (k keys) block(file string) ([]byte, error) {
	text, err := os.ReadFile(k.path(file))
	if err != nil {
		return nil, err
	}
	b, _ := pem.Decode(text)
	if b == nil {
		return nil, fmt.Errorf("%s holds no PEM", k.path(file))
	}
	return b.Bytes, nil
}
