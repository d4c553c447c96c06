package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// In an image of the program alone nobody else brings certificates.
func TestCertificatesWhereThereAreNone(t *testing.T) {
	t.Parallel()
	const alone = "COUNTERS_TEST_ALONE"
	if os.Getenv(alone) == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), alone+"=1", "SSL_CERT_FILE=/nowhere", "SSL_CERT_DIR=/nowhere")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	trusted := 0
	for root := range bundle.Roots() {
		cert, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		_, err = cert.Verify(x509.VerifyOptions{CurrentTime: cert.NotAfter.Add(-time.Hour), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		if err == nil {
			trusted++
		}
	}
	if trusted < 50 {
		t.Errorf("%d certificates are trusted", trusted)
	}
}
