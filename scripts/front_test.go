//go:build all

package scripts

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// front is the internet to a program that goes to Google's addresses: a proxy behind which a project
// that fakegcp.py plays answers for googleapis.com, with an embedded Firestore. So
// a program is tried as it is installed, with nothing in it that knows of tests.
type front struct {
	project   project
	firestore *httputil.ReverseProxy // REST
	documents *grpc.Server           // gRPC, handed on to the embedded Firestore
	rest      *httputil.ReverseProxy
	tls       string // address
}

// startFront starts one, and returns the environment of a program that goes there.
func startFront(t *testing.T, p project, firestore string) (environment []string) {
	t.Helper()
	conn, err := grpc.NewClient(firestore, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(frames{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	f := &front{
		project: p, firestore: proxyTo(t, "http://"+firestore, "owner"), rest: proxyTo(t, p.address, p.token),
		documents: grpc.NewServer(grpc.ForceServerCodec(frames{}), grpc.UnknownServiceHandler(handOn(conn))),
	}
	t.Cleanup(f.documents.Stop)

	certificate, authority := certificate(t)
	google := httptest.NewUnstartedServer(http.HandlerFunc(f.answer))
	google.EnableHTTP2, google.TLS = true, &tls.Config{Certificates: []tls.Certificate{certificate}}
	google.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that end
	google.StartTLS()
	t.Cleanup(google.Close)
	f.tls = google.Listener.Addr().String()
	proxy := httptest.NewServer(http.HandlerFunc(f.connect))
	t.Cleanup(proxy.Close)

	dir := t.TempDir()
	for name, text := range map[string]string{
		"ca.pem":   authority,
		"adc.json": `{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{
		"HTTPS_PROXY=" + proxy.URL, "NO_PROXY=", "no_proxy=", "SSL_CERT_FILE=" + filepath.Join(dir, "ca.pem"), "SSL_CERT_DIR=" + t.TempDir(),
		"CURL_CA_BUNDLE=" + filepath.Join(dir, "ca.pem"), "GOOGLE_APPLICATION_CREDENTIALS=" + filepath.Join(dir, "adc.json"),
		"FIRESTORE_EMULATOR_HOST=", "GOOGLE_CLOUD_PROJECT=",
	}
}

// certificate is one for Google's names, with the authority to trust.
func certificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test"}, DNSNames: []string{"*.googleapis.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func proxyTo(t *testing.T, address, token string) *httputil.ReverseProxy {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		service, _, _ := strings.Cut(r.In.Host, ".")
		r.SetURL(to)
		if !strings.Contains(r.In.URL.Path, "/documents") { // fakegcp.py has all APIs at one address
			r.Out.URL.Path = "/" + service + r.In.URL.Path
			r.Out.URL.RawPath = ""
		}
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}}
}

// connect is the proxy: whatever is asked for is at one place.
func (f *front) connect(w http.ResponseWriter, r *http.Request) {
	if host, _, _ := strings.Cut(r.Host, ":"); r.Method != http.MethodConnect || !strings.HasSuffix(host, ".googleapis.com") {
		http.Error(w, "only Google is here, not "+r.Host, http.StatusBadGateway)
		return
	}
	to, err := net.Dial("tcp", f.tls)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer to.Close()
	from, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer from.Close()
	if _, err := io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(to, buffered)
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}

func (f *front) answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Host == "oauth2.googleapis.com":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"fake","expires_in":3600,"token_type":"Bearer"}`)
	case strings.HasPrefix(r.URL.Path, "/google.firestore.v1.Firestore/"):
		f.documents.ServeHTTP(w, r)
	case strings.Contains(r.URL.Path, "/documents"):
		f.firestore.ServeHTTP(w, r)
	default:
		f.rest.ServeHTTP(w, r)
	}
}

// frames leaves messages as they are.
type frames struct{}

func (frames) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (frames) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data)
	return nil
}
func (frames) Name() string { return "proto" }

// handOn hands calls on to another server, as its administrator.
func handOn(to *grpc.ClientConn) grpc.StreamHandler {
	return func(_ any, from grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(from)
		ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(from.Context(), "authorization", "Bearer owner"))
		defer cancel()
		stream, err := to.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
		if err != nil {
			return err
		}
		go func() {
			for {
				var message []byte
				switch err := from.RecvMsg(&message); {
				case errors.Is(err, io.EOF):
					_ = stream.CloseSend()
					return
				case err != nil:
					cancel()
					return
				}
				if stream.SendMsg(&message) != nil {
					return // what it was is received below
				}
			}
		}()
		for {
			var message []byte
			switch err := stream.RecvMsg(&message); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			}
			if err := from.SendMsg(&message); err != nil {
				return err
			}
		}
	}
}
