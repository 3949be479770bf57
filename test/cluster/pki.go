// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateLife outlasts any test and any afternoon of playing around.
const certificateLife = 30 * 24 * time.Hour

// ca is the one authority of a cluster: it signs what the API server shows, the client certificates by which
// its users are known, and what certificate signing requests ask for.
type ca struct {
	cert    *x509.Certificate
	key     crypto.Signer
	certPEM []byte
}

// keyPair is a certificate and its key, both PEM.
type keyPair struct{ cert, key []byte }

func newCA() (*ca, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "localcluster-ca"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &ca{cert: cert, key: key, certPEM: encodeCertificate(der)}, nil
}

// client makes a certificate by which the API server knows its holder as the user, member of the groups.
func (a *ca) client(user string, groups ...string) (keyPair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// server makes the certificate that all components show, for loopback and the addresses. It holds the names by which
// pods know the API server too.
func (a *ca) server(addresses ...net.IP) (keyPair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "localcluster"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local"},
		IPAddresses: append([]net.IP{net.IPv4(127, 0, 0, 1)}, addresses...),
	})
}

func (a *ca) issue(template *x509.Certificate) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	der, err := sign(template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("signing the certificate of %q: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{cert: encodeCertificate(der), key: keyPEM}, nil
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour) // a clock that is set back must not end the cluster
	template.NotAfter = time.Now().Add(certificateLife)
	return x509.CreateCertificate(rand.Reader, template, parent, public, signer)
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// writePKI writes what the components read from files: ca.crt, ca.key, server.crt, server.key, and the key with
// which service account tokens are signed, sa.key and sa.pub.
func (a *ca) writePKI(dir string, addresses ...net.IP) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	caKey, err := encodeKey(a.key)
	if err != nil {
		return err
	}
	server, err := a.server(addresses...)
	if err != nil {
		return err
	}
	sa, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	saKey, err := encodeKey(sa)
	if err != nil {
		return err
	}
	saPublic, err := x509.MarshalPKIXPublicKey(sa.Public())
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"ca.crt": a.certPEM, "ca.key": caKey,
		"server.crt": server.cert, "server.key": server.key,
		"sa.key": saKey, "sa.pub": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: saPublic}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
