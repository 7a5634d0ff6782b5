package machines

// Connections to a machine.

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	// dialTimeout bounds connecting, and then the TLS handshake.
	dialTimeout = 4 * time.Second
	// maxIdleConnections is how many connections to a machine are kept for later requests.
	maxIdleConnections = 64
)

// keepAlive lets a silent connection to a machine that is gone end after about ten seconds.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second,
	Interval: 2 * time.Second, Count: 3}

// ErrCertificate means that a machine showed another TLS certificate than the stored one.
var ErrCertificate = errors.New("the machine shows another certificate than the one it was " +
	"paired with")

// Client returns an HTTP client for requests to a machine. It accepts only the machine's
// certificate, if one is stored. It neither follows redirects, which could lead a key elsewhere,
// nor changes the coding of answers. The caller keeps it, and closes its idle connections at last.
func Client(m Machine) *http.Client { return ClientAs(m, nil) }

// ClientAs is Client for a machine that asks for this one's certificate, as paired ones do. own
// returns it with its private key, and is called for each connection.
func ClientAs(m Machine, own func() (*tls.Certificate, error)) *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive}
	transport := &http.Transport{
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: dialTimeout,
		DisableCompression:  true,
		MaxIdleConnsPerHost: maxIdleConnections,
		IdleConnTimeout:     90 * time.Second,
	}
	if m.Kind != Headroom {
		transport.Proxy = http.ProxyFromEnvironment
	}
	if m.Certificate != "" {
		transport.TLSClientConfig = pinned(m.Certificate)
		if own != nil {
			transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (
				*tls.Certificate, error) {
				return own()
			}
		}
	}
	return &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}
}

// pinned returns a configuration that accepts the certificate with this SHA-256 alone, whatever its
// names and dates: both sides may have clocks that differ.
func pinned(certificate string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // VerifyConnection compares the whole certificate
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return ErrCertificate
			}
			sum := sha256.Sum256(state.PeerCertificates[0].Raw)
			if subtle.ConstantTimeCompare([]byte(hex.EncodeToString(sum[:])),
				[]byte(certificate)) != 1 {
				return fmt.Errorf("%w: its SHA-256 is %x", ErrCertificate, sum)
			}
			return nil
		}}
}
