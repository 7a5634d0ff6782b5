package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// KeyBytes is the length of a key and of a salt.
const KeyBytes = 32

// Key is a secret key. It never prints itself; Bytes returns its content.
type Key struct{ secret [KeyBytes]byte }

// Errors that callers can test for with errors.Is.
var (
	// ErrUnsealed means that sealed bytes were changed, or that the key is another one.
	ErrUnsealed = errors.New("the content does not match the key")
	// ErrOtherKey means that a file or folder was sealed with another key.
	ErrOtherKey = errors.New("it was encrypted with another key")
	// ErrLength means that a file is longer or shorter than its header says.
	ErrLength = errors.New("the file has another length")
	// ErrNoSalt means that a salt was destroyed or never written.
	ErrNoSalt = errors.New("its key was destroyed")
)

// NewKey returns a random key.
func NewKey() Key {
	var k Key
	_, _ = rand.Read(k.secret[:]) // never fails; see crypto/rand
	return k
}

// KeyOf returns the key with these bytes.
func KeyOf(secret []byte) (Key, error) {
	var k Key
	if len(secret) != KeyBytes {
		return k, fmt.Errorf("a key of %d bytes, expected %d", len(secret), KeyBytes)
	}
	copy(k.secret[:], secret)
	return k, nil
}

// Bytes returns a copy of the key's bytes.
func (k Key) Bytes() []byte { return append([]byte{}, k.secret[:]...) }

// Format implements fmt.Formatter: keys must not reach logs.
func (Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[key]") }

// LogValue implements slog.LogValuer.
func (Key) LogValue() slog.Value { return slog.StringValue("[key]") }

// Derive returns the key for one purpose, by HKDF-SHA-256. salt may be nil.
func (k Key) Derive(purpose string, salt []byte) Key {
	var d Key
	secret, err := hkdf.Key(sha256.New, k.secret[:], salt, "headroom "+purpose, KeyBytes)
	if err != nil {
		panic("seal: " + err.Error()) // cannot happen: the length is below HKDF's limit
	}
	copy(d.secret[:], secret)
	return d
}

// ID identifies a key in files without revealing it.
type ID [8]byte

// ID returns the key's ID.
func (k Key) ID() ID {
	d := k.Derive("id", nil)
	return ID(d.secret[:8])
}

// aead returns AES-256-GCM with this key.
func (k Key) aead() cipher.AEAD {
	block, err := aes.NewCipher(k.secret[:])
	if err == nil {
		var gcm cipher.AEAD
		if gcm, err = cipher.NewGCM(block); err == nil {
			return gcm
		}
	}
	panic("seal: " + err.Error()) // cannot happen: the key has a valid length
}

// Texts seals short texts with a key that seals nothing else.
type Texts struct{ gcm cipher.AEAD }

// Texts returns the sealer of texts with this key.
func (k Key) Texts() Texts { return Texts{k.aead()} }

// Seal seals text number n. context must be given again to open it. Of one key, a number must
// always seal the same text, because the number is the nonce.
func (t Texts) Seal(n uint64, text, context []byte) []byte {
	return t.gcm.Seal(nil, textNonce(n), text, context)
}

// Open returns the text number n; ErrUnsealed if it was changed.
func (t Texts) Open(n uint64, sealed, context []byte) ([]byte, error) {
	text, err := t.gcm.Open(nil, textNonce(n), sealed, context)
	if err != nil {
		return nil, ErrUnsealed
	}
	return text, nil
}

func textNonce(n uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 4, nonceBytes), n)
}
