package pairing

// SPAKE2 (RFC 9382, ciphersuite SPAKE2-P256-SHA256-HKDF-HMAC). Two parties that know the same short
// code agree on a secret. Whoever does not know the code, also in the middle, can test one guess in
// each exchange, and nothing afterwards: the messages of an exchange fit every code equally well.
//
// Party A is the machine on which the code is typed, and B the one that shows it. The group comes
// from filippo.io/nistec, which exports the implementation of Go's standard library.

import (
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/big"

	"filippo.io/nistec"
)

// shareBytes is the length of a share: an uncompressed point.
const shareBytes = 65

// The points M and N of RFC 9382, section 6, and the order of the group (FIPS 186-5).
var (
	pointM = point("02886e2f97ace46e55ba9dd7242579f2993b64e16ef3dcab95afd497333d8fa12f")
	pointN = point("03d8bbd6c639c62937b04d997f38c3770719c629d7014d49a24b4f98baa1292b49")
	order  = new(big.Int).SetBytes(unhex(
		"ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"))
)

func unhex(digits string) []byte {
	b, err := hex.DecodeString(digits)
	if err != nil {
		panic("pairing: " + err.Error())
	}
	return b
}

func point(digits string) *nistec.P256Point {
	p, err := nistec.NewP256Point().SetBytes(unhex(digits))
	if err != nil {
		panic("pairing: " + err.Error())
	}
	return p
}

var errShare = errors.New("the other side's share is not a point of the group")

// identities are the names that both parties put into the transcript, with what else both must
// agree on.
type identities struct{ a, b, context string }

// party is one side of one exchange. It must be used once.
type party struct {
	isA    bool
	names  identities
	secret []byte // x or y
	code   []byte // w
	share  []byte // pA or pB, which is sent
}

// newParty begins an exchange with a code.
func newParty(isA bool, code string, names identities) (*party, error) {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return newPartyWith(isA, scalarOf(code), key.Bytes(), names)
}

// scalarOf returns w of a code: 48 bytes of a hash, modulo the order. A slow hash would protect a
// code that is stored, and codes are not.
func scalarOf(code string) []byte {
	wide, err := hkdf.Key(sha256.New, []byte(code), nil, "headroom pairing code", 48)
	if err != nil {
		panic("pairing: " + err.Error()) // cannot happen: the length is below HKDF's limit
	}
	w := new(big.Int).SetBytes(wide)
	return w.Mod(w, order).FillBytes(make([]byte, 32))
}

func newPartyWith(isA bool, code, secret []byte, names identities) (*party, error) {
	p := &party{isA: isA, names: names, secret: secret, code: code}
	own, err := nistec.NewP256Point().ScalarBaseMult(secret)
	if err != nil {
		return nil, err
	}
	mask, err := nistec.NewP256Point().ScalarMult(p.base(true), code)
	if err != nil {
		return nil, err
	}
	p.share = own.Add(own, mask).Bytes()
	return p, nil
}

// base returns M or N: that of this party's own share, or of the other one's.
func (p *party) base(own bool) *nistec.P256Point {
	if p.isA == own {
		return pointM
	}
	return pointN
}

// agreed is what both parties know after an exchange with the same code.
type agreed struct {
	secret     []byte // Ke
	mine       []byte // the confirmation that this party sends
	theirs     []byte // the confirmation that it expects
	transcript []byte // only for tests
}

// finish computes what the parties have agreed on from the other one's share. Both parties must
// then compare confirmations, because a wrong code gives other secrets and no error.
func (p *party) finish(share []byte) (*agreed, error) {
	if len(share) != shareBytes {
		return nil, errShare
	}
	other, err := nistec.NewP256Point().SetBytes(share)
	if err != nil || other.IsInfinity() == 1 {
		return nil, errShare
	}
	mask, err := nistec.NewP256Point().ScalarMult(p.base(false), p.code)
	if err != nil {
		return nil, err
	}
	other.Add(other, mask.Negate(mask))
	k, err := nistec.NewP256Point().ScalarMult(other, p.secret)
	if err != nil || k.IsInfinity() == 1 {
		return nil, errShare
	}
	shareA, shareB := p.share, share
	if !p.isA {
		shareA, shareB = share, p.share
	}
	var tt []byte
	for _, part := range [][]byte{[]byte(p.names.a), []byte(p.names.b), shareA, shareB, k.Bytes(),
		p.code} {
		tt = binary.LittleEndian.AppendUint64(tt, uint64(len(part)))
		tt = append(tt, part...)
	}
	sum := sha256.Sum256(tt)
	const half = sha256.Size / 2
	macs, err := hkdf.Key(sha256.New, sum[half:], nil, "ConfirmationKeys"+p.names.context,
		sha256.Size)
	if err != nil {
		return nil, err
	}
	confirm := func(key []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write(tt)
		return mac.Sum(nil)
	}
	a := &agreed{secret: sum[:half], mine: confirm(macs[:half]), theirs: confirm(macs[half:]),
		transcript: tt}
	if !p.isA {
		a.mine, a.theirs = a.theirs, a.mine
	}
	return a, nil
}

// confirms reports whether the other party's confirmation shows that it used the same code, names
// and context.
func (a *agreed) confirms(confirmation []byte) bool { return hmac.Equal(confirmation, a.theirs) }
