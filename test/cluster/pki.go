// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
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

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// certificateLife outlasts any test and any afternoon of playing around.
	certificateLife = 30 * 24 * time.Hour
	// certificateAge keeps the cluster running when the clock is set back.
	certificateAge = time.Hour
)

// ca is the one authority of a cluster: it signs what the API server shows, the client certificates by which
// its users are known, and what certificate signing requests ask for.
type ca struct {
	cert    *x509.Certificate
	key     *ecdsa.PrivateKey
	certPEM []byte
}

// keyPair is a certificate and its key, both PEM.
type keyPair struct{ cert, key []byte }

func newCA() (*ca, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	config := certutil.Config{CommonName: "localcluster-ca", NotBefore: time.Now().Add(-certificateAge)}
	cert, err := certutil.NewSelfSignedCACert(config, key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate authority: %w", err)
	}
	return &ca{cert: cert, key: key, certPEM: encodeCertificate(cert.Raw)}, nil
}

// client makes a certificate by which the API server knows its holder as the user, member of the groups.
func (a *ca) client(user string, groups ...string) (keyPair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// server makes the certificate that all components show, for loopback and the addresses. It holds the names by which
// pods know the API server too.
func (a *ca) server(addresses ...net.IP) (keyPair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "localcluster"},
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
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return keyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.NotBefore = time.Now().Add(-certificateAge)
	template.NotAfter = time.Now().Add(certificateLife)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("signing the certificate of %q: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	return keyPair{cert: encodeCertificate(der), key: keyPEM}, err
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der})
}

// writePKI writes what the components read from files: ca.crt, ca.key, server.crt, server.key, and the key with
// which service account tokens are signed, sa.key.
func (a *ca) writePKI(dir string, addresses ...net.IP) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	caKey, err := keyutil.MarshalPrivateKeyToPEM(a.key)
	if err != nil {
		return err
	}
	server, err := a.server(addresses...)
	if err != nil {
		return err
	}
	saKey, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"ca.crt": a.certPEM, "ca.key": caKey, "server.crt": server.cert, "server.key": server.key, "sa.key": saKey,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
