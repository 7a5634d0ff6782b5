package update

// Signatures of minisign (https://jedisct1.github.io/minisign/), in its older format, whose
// signature covers the file itself: `minisign -S -l -m feed.json` makes one. The newer format signs
// a BLAKE2b hash, for files that do not fit into memory. A feed does.

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

const (
	algorithm = "Ed"
	hashed    = "ED" // the newer format
	idBytes   = 8
)

// Key is a public key of minisign.
type Key struct {
	id  [idBytes]byte
	key ed25519.PublicKey
}

// ParseKey reads a public key as minisign prints it: 56 characters that begin with RW. It ignores
// the line with a comment that a key file has.
func ParseKey(text string) (k Key, err error) {
	lines := strings.Fields(text)
	if len(lines) == 0 {
		return Key{}, errors.New("the key is empty, expected 56 characters that begin with RW")
	}
	data, err := base64.StdEncoding.Strict().DecodeString(lines[len(lines)-1])
	if err != nil || len(data) != len(algorithm)+idBytes+ed25519.PublicKeySize ||
		string(data[:2]) != algorithm {
		return Key{}, errors.New("it is no key of minisign, which has 56 characters and begins " +
			"with RW")
	}
	copy(k.id[:], data[2:])
	k.key = ed25519.PublicKey(data[2+idBytes:])
	return k, nil
}

// Verify returns an error unless signature, the content of a .minisig file, is this key's for
// message. The trusted comment of the signature is verified, too.
func (k Key) Verify(message, signature []byte) error {
	lines := bytes.Split(bytes.TrimSpace(signature), []byte("\n"))
	if len(lines) != 4 {
		return fmt.Errorf("the signature file has %d lines, expected 4", len(lines))
	}
	for i := range lines {
		lines[i] = bytes.TrimRight(lines[i], "\r")
	}
	first, err := base64.StdEncoding.Strict().DecodeString(string(lines[1]))
	switch {
	case err != nil || len(first) != len(algorithm)+idBytes+ed25519.SignatureSize:
		return errors.New("the second line of the signature file is no signature of minisign")
	case string(first[:2]) == hashed:
		return errors.New("the signature is of a hash. Sign with minisign -S -l")
	case string(first[:2]) != algorithm:
		return fmt.Errorf("the signature is of the kind %q, expected %q", first[:2], algorithm)
	case !bytes.Equal(first[2:][:idBytes], k.id[:]):
		return errors.New("it was made with another key than the one in the settings")
	}
	sign := first[2+idBytes:]
	if !ed25519.Verify(k.key, message, sign) {
		return errors.New("the feed was changed after it was signed")
	}
	comment, ok := bytes.CutPrefix(lines[2], []byte("trusted comment: "))
	second, err := base64.StdEncoding.Strict().DecodeString(string(lines[3]))
	if !ok || err != nil || !ed25519.Verify(k.key, append(bytes.Clone(sign), comment...), second) {
		return errors.New("the comment of the signature was changed after it was signed")
	}
	return nil
}
