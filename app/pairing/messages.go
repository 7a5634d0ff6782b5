package pairing

// The messages of a pairing, as JSON over HTTPS. A is the machine on which the code is typed.
//
//	POST /pair          A: version, share of A          B: version, exchange, share of B
//	POST /pair/confirm  A: exchange, confirmation of A  B: confirmation of B, sealed for A
//	                       sealed for B
//	POST /pair/back     A: port, key (optional; A is paired by then)
//
// B confirms and sends secrets only after A has confirmed. What is sealed can be read only by the
// two sides of the exchange.

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// protocol is the version of the messages. Both sides must have the same one.
const protocol = 1

// maxMessage bounds a message, in bytes.
const maxMessage = 8 << 10

// The paths of the pairing. All else at the port is the endpoint's.
const (
	pathPair    = "/pair"
	pathConfirm = "/pair/confirm"
	pathBack    = "/pair/back"
)

type helloMessage struct {
	Version int    `json:"version"`
	Share   []byte `json:"share"`
}

type helloReply struct {
	Version  int    `json:"version"`
	Exchange string `json:"exchange"`
	Share    []byte `json:"share"`
}

type confirmMessage struct {
	Exchange string `json:"exchange"`
	Confirm  []byte `json:"confirm"`
	Sealed   []byte `json:"sealed"` // an introduction
}

type confirmReply struct {
	Confirm []byte `json:"confirm"`
	Sealed  []byte `json:"sealed"` // a grant
}

// introduction is what A says of itself.
type introduction struct {
	Name string `json:"name"`
}

// grant is what B gives A.
type grant struct {
	Name string `json:"name"` // of B
	Key  string `json:"key"`  // the API key of A at B
	Both bool   `json:"both"` // B would use A's engines, too
}

// backMessage lets B use A's engines.
type backMessage struct {
	Port int    `json:"port"` // A's port for machines
	Key  string `json:"key"`  // the API key of B at A
}

// refusal is the answer to a message that is refused.
type refusal struct {
	Error string `json:"error"` // one of the codes below
}

const (
	refusedVersion   = "version"   // the other side has another version of the protocol
	refusedCode      = "code"      // the code is wrong
	refusedMalformed = "malformed" // the message makes no sense
	refusedFailed    = "failed"    // the other side could not store the pairing
)

// decode reads a message. It refuses one that is too long, and what follows the message.
func decode(from io.Reader, message any) error {
	data, err := io.ReadAll(io.LimitReader(from, maxMessage+1))
	if err != nil {
		return err
	}
	if len(data) > maxMessage {
		return fmt.Errorf("the message has more than %d bytes", maxMessage)
	}
	return json.Unmarshal(data, message)
}

// send writes a message as the answer to a request.
func send(w http.ResponseWriter, status int, message any) {
	data, err := json.Marshal(message)
	if err != nil {
		panic("pairing: " + err.Error()) // a bug: the types are ours
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

// namesOf returns the identities of an exchange between two certificates.
func namesOf(a, b string) identities {
	return identities{a: "typed on " + a, b: "shown by " + b,
		context: fmt.Sprintf("headroom pairing %d", protocol)}
}

// The directions of sealed messages. Each has a key of its own, for one message.
const (
	fromA = "A to B"
	fromB = "B to A"
)

// channel returns the cipher of one direction.
func (a *agreed) channel(direction string) cipher.AEAD {
	key, err := hkdf.Key(sha256.New, a.secret, nil, "headroom pairing "+direction, 32)
	if err == nil {
		var block cipher.Block
		if block, err = aes.NewCipher(key); err == nil {
			var gcm cipher.AEAD
			if gcm, err = cipher.NewGCM(block); err == nil {
				return gcm
			}
		}
	}
	panic("pairing: " + err.Error()) // cannot happen: the lengths are right
}

// seal seals the only message of a direction.
func (a *agreed) seal(direction string, message any) []byte {
	data, err := json.Marshal(message)
	if err != nil {
		panic("pairing: " + err.Error()) // a bug: the types are ours
	}
	gcm := a.channel(direction)
	return gcm.Seal(nil, make([]byte, gcm.NonceSize()), data, nil) // the key seals nothing else
}

var errSealed = errors.New("the message was not sealed by the other side")

// open opens the only message of a direction.
func (a *agreed) open(direction string, sealed []byte, message any) error {
	gcm := a.channel(direction)
	data, err := gcm.Open(nil, make([]byte, gcm.NonceSize()), sealed, nil)
	if err != nil {
		return errSealed
	}
	return json.Unmarshal(data, message)
}
