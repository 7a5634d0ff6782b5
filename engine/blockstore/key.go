package blockstore

// Keys of entries. A key is a hash over everything that determines the bytes of an entry, chained
// through the key of the parent. Equal keys mean the same model, cache format and tokens from
// position 0, so a prefix is found by looking up keys.

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// BlockTokens is the number of tokens in a full block.
const BlockTokens = 256

// formatVersion names the layout of keys and files. Files of another version are removed.
const formatVersion = "headroom block 1"

// Key identifies an entry. In files, the zero Key is the parent of entries at position 0.
type Key [sha256.Size]byte

// String returns the key as 64 hexadecimal digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// kind is the kind of an entry. The index stores its values: never renumber them.
type kind uint8

const (
	kindBlock kind = 1 // BlockTokens tokens
	kindTail  kind = 2 // 1 to BlockTokens-1 tokens
	kindState kind = 3 // 0 to BlockTokens-1 tokens

	// kindRoot is not stored. In the index, the parent of entries at position 0 is not the zero Key
	// but a key of this kind, which differs between models.
	kindRoot kind = 4
)

var kindNames = map[kind]string{kindBlock: "block", kindTail: "tail", kindState: "state"}

func (k kind) String() string { return kindNames[k] }

// kindOf returns the kind with that name, or 0.
func kindOf(name string) kind {
	for k, n := range kindNames {
		if n == name {
			return k
		}
	}
	return 0
}

// fits reports whether an entry of this kind may hold n tokens.
func (k kind) fits(n int) bool {
	switch k {
	case kindBlock:
		return n == BlockTokens
	case kindTail:
		return 0 < n && n < BlockTokens
	case kindState:
		return 0 <= n && n < BlockTokens
	}
	return false
}

// keys computes the keys of one model in one cache format.
type keys struct {
	head   []byte // hashed first in every key
	secret []byte // of an encrypted folder: without it, nobody can check a guess of the tokens
	root   Key    // see kindRoot
}

// newKeys returns the keys of a model. secret is nil in a folder that is not encrypted.
func newKeys(fingerprint, format string, secret []byte) keys {
	k := keys{secret: secret}
	for _, s := range []string{formatVersion, fingerprint, format} {
		k.head = appendField(k.head, []byte(s))
	}
	k.root = k.key(kindRoot, Key{}, nil)
	return k
}

// key returns the key of an entry: the SHA-256 of format version, fingerprint, cache format, kind,
// parent and tokens (u32, little-endian), each preceded by its length. In an encrypted folder it is
// the HMAC-SHA-256 of that.
func (k keys) key(kind kind, parent Key, tokens []int32) Key {
	b := make([]byte, 0, len(k.head)+64+4*len(tokens))
	b = append(b, k.head...)
	b = appendField(b, []byte{byte(kind)})
	b = appendField(b, parent[:])
	b = binary.LittleEndian.AppendUint32(b, uint32(4*len(tokens)))
	b = appendTokens(b, tokens)
	if k.secret != nil {
		mac := hmac.New(sha256.New, k.secret)
		mac.Write(b)
		return Key(mac.Sum(nil))
	}
	return sha256.Sum256(b)
}

// chain returns the keys of the full blocks of tokens, in order.
func (k keys) chain(tokens []int32) []Key {
	chain := make([]Key, 0, len(tokens)/BlockTokens)
	parent := Key{}
	for from := 0; from+BlockTokens <= len(tokens); from += BlockTokens {
		parent = k.key(kindBlock, parent, tokens[from:from+BlockTokens])
		chain = append(chain, parent)
	}
	return chain
}

// parentAt returns the parent of an entry that begins at block i of the chain.
func parentAt(chain []Key, i int) Key {
	if i == 0 {
		return Key{}
	}
	return chain[i-1]
}

func appendField(b, field []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(field)))
	return append(b, field...)
}

func appendTokens(b []byte, tokens []int32) []byte {
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return b
}

// ordered encodes tokens as the index stores them: big-endian, so that bytes sort like tokens and a
// prefix of tokens is a prefix of bytes.
func ordered(tokens []int32) []byte {
	b := make([]byte, 0, 4*len(tokens))
	for _, t := range tokens {
		b = binary.BigEndian.AppendUint32(b, uint32(t))
	}
	return b
}

// fromOrdered is the inverse of ordered.
func fromOrdered(b []byte) []int32 {
	tokens := make([]int32, len(b)/4)
	for i := range tokens {
		tokens[i] = int32(binary.BigEndian.Uint32(b[4*i:]))
	}
	return tokens
}

func commonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
