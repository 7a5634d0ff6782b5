package seal

// A sealed file has a header of 64 bytes in the clear, little-endian, then the chunks.
//
//	 0  "HRSEAL01"
//	 8  ID of the key, 8 bytes
//	16  u32 bytes of a chunk, before sealing
//	20  u32 number of the salt's slot, see slots.go; 0 if the salt is elsewhere
//	24  u64 length of the content
//	32  random salt, 32 bytes
//	64  chunks, each with its tag of 16 bytes; the last one may be shorter
//
// The key of the chunks is derived from the caller's key and the salt, so no two files share one.
// A chunk's nonce is its number and whether it is the last one (the STREAM construction), and its
// associated data are the header and the file's name. So a chunk that was changed, moved, left out
// or taken from another file does not open, and nor does a file that was cut, renamed or extended.

import (
	"bytes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
)

const (
	fileMagic   = "HRSEAL01"
	HeaderBytes = 64 // HeaderBytes is the length of a file's header.
	TagBytes    = 16 // TagBytes is what sealing adds to a chunk.
	nonceBytes  = 12

	minChunk  = 1 << 10
	maxChunk  = 1 << 20
	maxLength = 1 << 46
)

// Header is the beginning of a sealed file.
type Header struct {
	Key    ID
	Chunk  int    // bytes of a chunk before sealing, 1 KiB to 1 MiB
	Slot   uint32 // see Slots
	Length int64  // of the content
	Salt   [KeyBytes]byte
}

// NewHeader returns the header of a new file.
func NewHeader(key ID, chunk int, slot uint32, length int64) Header {
	return Header{Key: key, Chunk: chunk, Slot: slot, Length: length,
		Salt: NewKey().secret}
}

// IsFile reports whether bytes from the beginning of a file show that it is sealed, or was before
// the rest of it was damaged.
func IsFile(b []byte) bool { return bytes.HasPrefix(b, []byte(fileMagic)) }

// ParseHeader parses the beginning of a file of fileBytes bytes, and checks it against that length.
// If only the length is wrong, the error is ErrLength and the header is valid: chunks that are
// there may still open.
func ParseHeader(b []byte, fileBytes int64) (Header, error) {
	var h Header
	if len(b) < HeaderBytes || string(b[:8]) != fileMagic {
		return h, fmt.Errorf("%d bytes do not begin with the header of a sealed file",
			fileBytes)
	}
	h.Key = ID(b[8:16])
	chunk, length := binary.LittleEndian.Uint32(b[16:]), binary.LittleEndian.Uint64(b[24:])
	h.Slot, h.Salt = binary.LittleEndian.Uint32(b[20:]), [KeyBytes]byte(b[32:64])
	if chunk < minChunk || chunk > maxChunk || length > maxLength {
		return h, fmt.Errorf("chunks of %d bytes for a content of %d are not valid", chunk,
			length)
	}
	h.Chunk, h.Length = int(chunk), int64(length)
	if want := h.FileBytes(); fileBytes != want {
		return h, fmt.Errorf("%w: %d bytes, its header says %d", ErrLength, fileBytes, want)
	}
	return h, nil
}

// Append appends the header as it is in the file.
func (h Header) Append(b []byte) []byte {
	b = append(b, fileMagic...)
	b = append(b, h.Key[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(h.Chunk))
	b = binary.LittleEndian.AppendUint32(b, h.Slot)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Length))
	return append(b, h.Salt[:]...)
}

// Chunks returns the number of chunks. An empty content has one, which is empty.
func (h Header) Chunks() int64 {
	return max(1, (h.Length+int64(h.Chunk)-1)/int64(h.Chunk))
}

// FileBytes returns the length of the file.
func (h Header) FileBytes() int64 { return HeaderBytes + h.Length + TagBytes*h.Chunks() }

// ChunkBytes returns the length of chunk i before sealing.
func (h Header) ChunkBytes(i int64) int {
	return int(min(int64(h.Chunk), h.Length-i*int64(h.Chunk)))
}

// Box seals and opens the chunks of one file. Its methods may be called concurrently.
type Box struct {
	header Header
	gcm    cipher.AEAD
	data   []byte // associated data of every chunk
}

// Box returns the box of the file with this header. name is the file's name, or anything else that
// tells it from other files of the key.
func (h Header) Box(key Key, name []byte) *Box {
	return &Box{h, key.Derive("file", h.Salt[:]).aead(), append(h.Append(nil), name...)}
}

// Seal seals chunk i in place. The slice must have the chunk's length, and should have a capacity
// of TagBytes more. The result has the tag at its end.
func (b *Box) Seal(i int64, chunk []byte) []byte {
	if i < 0 || i >= b.header.Chunks() || len(chunk) != b.header.ChunkBytes(i) {
		panic(fmt.Sprintf("seal: chunk %d of %d has %d bytes", i, b.header.Chunks(), len(chunk)))
	}
	return b.gcm.Seal(chunk[:0], b.nonce(i), chunk, b.data)
}

// Open opens chunk i in place. The error is ErrUnsealed if it is not the chunk that was sealed.
func (b *Box) Open(i int64, sealed []byte) ([]byte, error) {
	if i < 0 || i >= b.header.Chunks() || len(sealed) != b.header.ChunkBytes(i)+TagBytes {
		return nil, ErrUnsealed
	}
	chunk, err := b.gcm.Open(sealed[:0], b.nonce(i), sealed, b.data)
	if err != nil {
		return nil, ErrUnsealed
	}
	return chunk, nil
}

// nonce returns the nonce of chunk i: its number, then whether it is the last.
func (b *Box) nonce(i int64) []byte {
	n := make([]byte, nonceBytes)
	binary.BigEndian.PutUint64(n[3:], uint64(i))
	if i == b.header.Chunks()-1 {
		n[nonceBytes-1] = 1
	}
	return n
}

// File returns a whole sealed file.
func (h Header) File(key Key, name, content []byte) []byte {
	h.Length = int64(len(content))
	box := h.Box(key, name)
	file := h.Append(make([]byte, 0, h.FileBytes()))
	for i := range h.Chunks() {
		from, n := i*int64(h.Chunk), h.ChunkBytes(i)
		at := len(file)
		file = append(file, content[from:from+int64(n)]...)
		file = append(file[:at], box.Seal(i, file[at:])...)
	}
	return file
}
