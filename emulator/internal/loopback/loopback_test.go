package loopback_test

import (
	"net/http"
	"testing"

	"github.com/firestore-counters/counters/emulator/internal/loopback"
)

func TestHost(t *testing.T) {
	for host, want := range map[string]bool{
		"": true, "localhost": true, "localhost:8080": true, "LOCALHOST.:8080": true, "app.localhost:1": true,
		"127.0.0.1:8080": true, "[::1]:8080": true, "::1": true, "192.168.1.7:8080": true, "firestore:8080": true,
		"evil.example": false, "evil.example:8080": false, "localhost.evil.example": false, "127.0.0.1.evil.example:80": false,
		"notlocalhost": false, "[::1": true, "[": false, ":8080": false,
	} {
		if got := loopback.Host(&http.Request{Host: host}, "firestore"); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
}

func TestOrigin(t *testing.T) {
	for origin, want := range map[string]bool{
		"http://localhost:5000": true, "https://localhost": true, "http://127.0.0.1:8081": true, "http://[::1]:80": true,
		"http://app.localhost": true, "http://firestore:8080": true,
		"null": false, "": false, "https://evil.example": false, "http://localhost.evil.example": false,
		"http://192.168.1.7": false, "file://": false, "http://%": false, "localhost": false,
	} {
		if got := loopback.Origin(&http.Request{Header: http.Header{"Origin": {origin}}}, "firestore"); got != want {
			t.Errorf("%q: %v, want %v", origin, got, want)
		}
	}
	if !loopback.Origin(&http.Request{}) {
		t.Error("a request of no page is refused")
	}
	if loopback.Origin(&http.Request{Header: http.Header{"Origin": {"http://localhost", "http://evil.example"}}}) {
		t.Error("the second of two origins is not looked at")
	}
}
