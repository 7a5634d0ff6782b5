package machines

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestPinned: only the stored certificate is accepted, and without one only what the system trusts.
func TestPinned(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "here") }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	sum := sha256.Sum256(server.Certificate().Raw)
	right := hex.EncodeToString(sum[:])
	for certificate, ok := range map[string]bool{right: true, "": false,
		strings.Repeat("00", 32): false} {
		client := Client(Machine{Kind: Headroom, URL: server.URL, Certificate: certificate})
		response, err := client.Get(server.URL)
		if err == nil {
			response.Body.Close()
		}
		client.CloseIdleConnections()
		if (err == nil) != ok {
			t.Errorf("certificate %q: %v", certificate, err)
		}
		if certificate != "" && !ok && !errors.Is(err, ErrCertificate) {
			t.Errorf("certificate %q: %v", certificate, err)
		}
	}
}

// TestNoRedirects: a key must not go to where a machine points.
func TestNoRedirects(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the redirect was followed")
	}))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	client := Client(Machine{Kind: OpenAI, URL: server.URL})
	defer client.CloseIdleConnections()
	response, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusTemporaryRedirect {
		t.Error(response.Status)
	}
}
