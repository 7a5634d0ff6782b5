package pairing

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	"headroom/app/disk"
	"headroom/engine/problem"
	"headroom/engine/seal"
)

const (
	identityFile  = "machine-key" // in the folder of the settings
	identityBytes = 1 << 16       // more than the file has
	identityChunk = 1 << 12
	lockWait      = 10 * time.Second // for another program that makes the identity
)

// Identity is how a machine shows other machines that it is the one that was paired: a self-signed
// certificate, and its private key. It names nobody: its subject is empty.
type Identity struct {
	Certificate tls.Certificate
	Fingerprint string // SHA-256 of the certificate, in hexadecimal digits
}

// OpenIdentity returns the identity that is stored in dir, the folder of the settings, and makes
// one if there is none. The private key is sealed with the installation's key, which key returns.
// An identity that another key has sealed cannot be read by anybody any more, since the
// installation's key was deleted; it is replaced, and other machines have to be paired again. The
// error is a Problem.
func OpenIdentity(dir string, key func() (seal.Key, error)) (*Identity, error) {
	if dir == "" {
		return nil, unavailable(errors.New("there is no folder of settings"))
	}
	installation, err := key()
	if err != nil {
		return nil, err
	}
	path, own := filepath.Join(dir, identityFile), installation.Derive("machine identity", nil)
	id, err := readIdentity(path, own)
	if err == nil {
		return id, nil
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, seal.ErrOtherKey) {
		return nil, unavailable(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unavailable(err)
	}
	unlock, err := disk.LockFolder(dir, lockWait)
	if err != nil {
		return nil, unavailable(err)
	}
	defer unlock()
	id, err = readIdentity(path, own) // another program may have made it meanwhile
	switch {
	case err == nil:
		return id, nil
	case errors.Is(err, seal.ErrOtherKey):
		slog.Warn("this machine gets a new certificate, because the key that sealed the old one " +
			"was deleted; pair it with other machines again")
	case !errors.Is(err, fs.ErrNotExist):
		return nil, unavailable(err)
	}
	if id, err = makeIdentity(path, own); err != nil {
		return nil, unavailable(err)
	}
	return id, nil
}

// IdentityFile returns the path of the file of the identity in a folder of settings.
func IdentityFile(dir string) string { return filepath.Join(dir, identityFile) }

func unavailable(err error) error {
	return problem.Wrap(problem.Internal, err, "This machine's certificate is not available",
		"Check the file "+identityFile+" in the settings folder. If it is damaged, remove it, and "+
			"pair this machine with others again.")
}

// readIdentity reads the file: a sealed file with the certificate and the private key, as PKCS #8.
func readIdentity(path string, key seal.Key) (*Identity, error) {
	data, _, err := disk.Read(path, identityBytes)
	if err != nil {
		return nil, err
	}
	header, err := seal.ParseHeader(data, int64(len(data)))
	switch {
	case err != nil:
		return nil, err
	case header.Key != key.ID():
		return nil, seal.ErrOtherKey
	case header.Chunks() != 1:
		return nil, seal.ErrLength
	}
	content, err := header.Box(key, []byte(identityFile)).Open(0, data[seal.HeaderBytes:])
	if err != nil {
		return nil, err
	}
	return parseIdentity(content)
}

// parseIdentity reads the content of the file: the length of the certificate as two bytes, the
// certificate, and the private key.
func parseIdentity(content []byte) (*Identity, error) {
	malformed := errors.New("the file has no certificate and private key")
	if len(content) < 2 {
		return nil, malformed
	}
	n := int(content[0])<<8 | int(content[1])
	if len(content) < 2+n {
		return nil, malformed
	}
	certificate, secret := content[2:2+n], content[2+n:]
	leaf, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(secret)
	if err != nil {
		return nil, err
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !private.PublicKey.Equal(leaf.PublicKey) {
		return nil, errors.New("the private key is not that of the certificate")
	}
	return &Identity{Fingerprint: fingerprint(certificate), Certificate: tls.Certificate{
		Certificate: [][]byte{certificate}, PrivateKey: private, Leaf: leaf}}, nil
}

// makeIdentity makes an identity and stores it. The caller holds the lock.
func makeIdentity(path string, key seal.Key) (*Identity, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	// Nobody looks at the dates: the other side compares the whole certificate, and its clock may
	// be wrong.
	template := &x509.Certificate{SerialNumber: big.NewInt(1),
		NotBefore: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:  time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template,
		&private.PublicKey, private)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	content := append([]byte{byte(len(certificate) >> 8), byte(len(certificate))}, certificate...)
	content = append(content, secret...)
	id, err := parseIdentity(append([]byte{}, content...))
	if err != nil {
		return nil, err
	}
	header := seal.NewHeader(key.ID(), identityChunk, 0, int64(len(content)))
	sealed := header.File(key, []byte(identityFile), content)
	if err := disk.WriteFile(path, sealed, 0o600); err != nil {
		return nil, err
	}
	disk.SyncDir(filepath.Dir(path))
	return id, nil
}

// fingerprint returns the SHA-256 of a certificate, in hexadecimal digits.
func fingerprint(certificate []byte) string {
	sum := sha256.Sum256(certificate)
	return hex.EncodeToString(sum[:])
}

// Short returns the beginning of a fingerprint in groups, for people to compare.
func Short(fingerprint string) string {
	var groups []string
	for i := 0; i+4 <= min(len(fingerprint), 16); i += 4 {
		groups = append(groups, fingerprint[i:i+4])
	}
	return strings.Join(groups, " ")
}

// peerOf returns the fingerprint of the certificate that the other side of a connection has shown,
// and whose private key it has; "": none.
func peerOf(state *tls.ConnectionState) string {
	if state == nil || len(state.PeerCertificates) == 0 {
		return ""
	}
	return fingerprint(state.PeerCertificates[0].Raw)
}
